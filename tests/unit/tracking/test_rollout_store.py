import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.rollout_store import COLUMNS, RolloutStore, read_rollouts

PROMPT = Prompt(prompt_id="p", source="sums", text="1+1=", token_ids=np.asarray([1, 2], np.int32), row={"answer": "2"})


def make_group(verdicts: list[Verdict], *, versions: tuple[int, int] = (7, 8), signal: bool = True) -> Group:
    rollouts = []
    for i, verdict in enumerate(verdicts):
        completion = Completion(
            request_id=str(i),
            token_ids=np.asarray([5, 6], np.int32),
            logprob=np.asarray([-0.5, -0.5], np.float32),
            policy_version=np.asarray(versions, np.int32),
            finish_reason="stop",
        )
        rollout = rollout_from_completions(
            PROMPT, completion, rollout_id=f"r{i}", group_id="g", seed=i, temperature=1.0
        )
        advantage = np.asarray([0, 0, 1.0, 2.0], np.float32)
        rollouts.append(replace(rollout, verdict=verdict, advantage=advantage))
    reason = "" if signal else "zero variance"
    return Group(group_id="g", prompt=PROMPT, admission=0, rollouts=tuple(rollouts), signal=signal, drop_reason=reason)


RIGHT = Verdict(reward=1.0, passed=True)
WRONG = Verdict(reward=0.0, passed=False, reason="12 is not 2")
BROKEN = Verdict(reward=None, error="verifier timed out")


def add_one(store: RolloutStore, step: int, text: str = "#2") -> None:
    store.add([make_group([RIGHT])], [text], step=step, answers=["2"])


def test_every_column_of_every_rollout(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.add([make_group([RIGHT, WRONG, BROKEN])], ["#2", "#12", "?"], step=10, answers=["2"])
    store.close()
    table = read_rollouts(tmp_path)
    assert table.column_names == list(COLUMNS)
    right, wrong, broken = table.to_pylist()
    assert right == {
        "step": 10, "attempt": 1, "group_id": "g", "rollout_id": "r0", "prompt_id": "p", "source": "sums",
        "prompt": "1+1=", "completion": "#2", "answer": "2", "reward": 1.0, "passed": True, "reason": "",
        "reward_shaped": None, "error": None, "finish_reason": "stop", "num_tokens": 2, "lag": 2, "oldest_version": 7,
        "advantage": 1.5, "dropped": "",
    }  # fmt: skip
    assert (wrong["reward"], wrong["passed"], wrong["reason"]) == (0.0, False, "12 is not 2")
    assert (broken["reward"], broken["passed"], broken["error"]) == (None, None, "verifier timed out")


def test_shaped_rewards_are_counted(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    with pytest.raises(ValueError, match="1 shaped rewards for 2 texts"):
        store.add([make_group([RIGHT, WRONG])], ["#2", "#12"], step=1, answers=["2"], shaped=[0.5])
    store.add([make_group([RIGHT, WRONG])], ["#2", "#12"], step=1, answers=["2"], shaped=[0.5, None])
    store.close()
    rows = read_rollouts(tmp_path, columns=["reward", "reward_shaped"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1.0, 0.5), (0.0, None)]


def test_dropped_groups_say_why(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.add([make_group([RIGHT])], ["#2"], step=13, answers=["2"], dropped="lag")
    store.add([make_group([RIGHT], signal=False)], ["#2"], step=13, answers=["2"])
    store.close()
    assert read_rollouts(tmp_path, columns=["dropped", "lag"]).to_pylist() == [
        {"dropped": "lag", "lag": 5},
        {"dropped": "zero variance", "lag": 5},
    ]


def test_superseded_rows_are_skipped(tmp_path: Path) -> None:
    first = RolloutStore(tmp_path, attempt=begin_attempt(tmp_path))
    for step in (19, 20, 21, 22):
        add_one(first, step, "old")
    first.close()
    second = RolloutStore(tmp_path, attempt=begin_attempt(tmp_path, 20))
    add_one(second, 21, "new")
    second.close()
    rows = read_rollouts(tmp_path, columns=["step", "completion"]).to_pylist()
    assert [(row["step"], row["completion"]) for row in rows] == [(19, "old"), (20, "old"), (21, "new")]


def test_parts_are_written_by_rows_and_by_steps(tmp_path: Path) -> None:
    def parts() -> list[str]:
        return sorted(path.name for path in (tmp_path / "rollouts").iterdir())

    store = RolloutStore(tmp_path, rows_per_part=3, steps_per_part=2)
    for _ in range(3):
        add_one(store, 1)
    assert parts() == ["part-000001.parquet"]
    add_one(store, 2)
    add_one(store, 3)
    assert parts() == ["part-000001.parquet"]
    add_one(store, 4)  # the third step in this part
    assert parts() == ["part-000001.parquet", "part-000002.parquet"]
    store.flush()
    store.close()
    assert len(parts()) == 2
    assert [row["step"] for row in read_rollouts(tmp_path).to_pylist()] == [1, 1, 1, 2, 3, 4]


def test_a_half_written_part_is_ignored_and_cleared_away(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    add_one(store, 1)
    store.close()
    half = tmp_path / "rollouts" / "part-000002.tmp"
    half.write_bytes(b"PAR1")
    assert len(read_rollouts(tmp_path)) == 1
    again = RolloutStore(tmp_path)
    assert not half.exists()
    add_one(again, 2)
    again.close()
    assert len(read_rollouts(tmp_path)) == 2


def test_text_utf8_cannot_hold_is_replaced(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    add_one(store, 1, "f\u00fcr \ud800")
    store.close()
    assert read_rollouts(tmp_path, columns=["completion"]).to_pylist() == [{"completion": "f\u00fcr ?"}]


def test_no_rollouts_yet(tmp_path: Path) -> None:
    assert len(read_rollouts(tmp_path)) == 0


def test_texts_and_answers_must_match_the_rollouts(tmp_path: Path) -> None:
    store, groups = RolloutStore(tmp_path), [make_group([RIGHT, WRONG])]
    with pytest.raises(ValueError, match="1 texts and 1 answers for 2 rollouts of 1 groups"):
        store.add(groups, ["#2"], step=1, answers=["2"])
    with pytest.raises(ValueError, match="2 texts and 2 answers for 2 rollouts of 1 groups"):
        store.add(groups, ["#2", "#12"], step=1, answers=["2", "2"])


def test_answers_and_reasons_go_with_their_groups(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    store.add(
        [make_group([RIGHT, WRONG]), make_group([RIGHT], signal=False)],
        ["a", "b", "c"],
        step=9,
        answers=["first", "second"],
    )
    store.close()
    rows = read_rollouts(tmp_path, columns=["completion", "answer", "dropped"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("a", "first", ""),
        ("b", "first", ""),
        ("c", "second", "zero variance"),
    ]


def test_a_full_disk_costs_rows_that_are_counted_and_later_parts_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import pyarrow.parquet as pq

    write, full = pq.write_table, True

    def write_table(table: object, where: Path, **options: object) -> None:
        if full:
            where.write_bytes(b"PAR1")  # half a file
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, where, **options)

    monkeypatch.setattr(pq, "write_table", write_table)
    store = RolloutStore(tmp_path)
    for step in (1, 2, 3):
        store.add([make_group([RIGHT, WRONG])], ["#2", "#12"], step=step, answers=["2"])
        full = step < 3
        store.flush()
    assert store.num_unwritten == 4
    assert [row["step"] for row in read_rollouts(tmp_path).to_pylist()] == [3, 3]
    assert [path.name for path in (tmp_path / "rollouts").iterdir()] == ["part-000001.parquet"]
    assert caplog.text.count("the disk is full: rollouts are not written") == 1


def test_any_other_error_of_the_disk_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    def write_table(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(pq, "write_table", write_table)
    store = RolloutStore(tmp_path)
    add_one(store, 1)
    with pytest.raises(OSError, match="Input/output error"):
        store.flush()
