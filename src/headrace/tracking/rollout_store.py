"""``rollouts/part-*.parquet``: every completion of a run, trained or dropped, one row each.

====================  =================================================================================================
step                  trainer's version after the step the rollout was trained in, or was cut for when dropped
attempt               attempt of the run that wrote the row (see attempts.py)
group_id, rollout_id, prompt_id, source
prompt, completion    text
answer                the gold answer, as text
reward                null when the completion could not be judged
passed                null when the completion could not be judged
reason, error         the verifier's words; error is null when it judged
finish_reason         stop | length | interrupted | abort
num_tokens            tokens the policy wrote
lag                   steps between the oldest of those tokens and the step (step - 1 - oldest_version)
oldest_version        version of the weights that wrote the oldest of those tokens
advantage             mean over the tokens the policy wrote; null before or without an advantage
dropped               why the rollout was not trained, empty when it was
====================  =================================================================================================

Parts are written to a temporary name and renamed, so a reader never sees half a file. A kill costs the rows since the
last flush.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.records import NO_VERSION, Group, Rollout
from headrace.tracking.attempts import last_steps

ROLLOUTS_FOLDER = "rollouts"
_TEXT = ("group_id", "rollout_id", "prompt_id", "source", "prompt", "completion", "answer", "reason", "error")
COLUMNS: Mapping[str, str] = {
    "step": "int64",
    "attempt": "int32",
    **dict.fromkeys(_TEXT[:7], "string"),
    "reward": "float32",
    "passed": "bool",
    "reason": "string",
    "error": "string",
    "finish_reason": "string",
    "num_tokens": "int32",
    "lag": "int32",
    "oldest_version": "int64",
    "advantage": "float32",
    "dropped": "string",
}


class RolloutStore:
    """Appends rollouts to Parquet parts in ``run_folder/rollouts``.

    A part is written once ``rows_per_part`` rows or ``steps_per_part`` different steps are waiting, and at ``flush``
    and ``close``.
    """

    def __init__(
        self, run_folder: str | Path, *, attempt: int = 1, rows_per_part: int = 8192, steps_per_part: int = 20
    ) -> None:
        self._folder = Path(run_folder) / ROLLOUTS_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        for leftover in self._folder.glob("*.tmp"):
            leftover.unlink()
        self._attempt = attempt
        self._rows_per_part = rows_per_part
        self._steps_per_part = steps_per_part
        self._rows: list[dict[str, Any]] = []
        self._steps: set[int] = set()
        self._next_part = 1 + max((_part_number(path) for path in _parts(self._folder)), default=0)

    def add_group(
        self, group: Group, completions: Sequence[str], *, step: int, answer: str = "", dropped: str = ""
    ) -> None:
        """Add the rollouts of one group; ``completions`` are their texts in the same order.

        ``step`` is the trainer's version after the step (``StepResult.version``), ``answer`` the gold answer.
        ``dropped`` says why the group was not trained; a group without signal gives its own reason.
        """
        reason = dropped or ("" if group.signal else group.drop_reason or "no signal")
        for rollout, completion in zip(group.rollouts, completions, strict=True):
            row = rollout_row(rollout, step=step, prompt=group.prompt.text, completion=completion, answer=answer)
            self.add(row | {"dropped": reason})

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row with the columns above; ``attempt`` is filled in, a missing column is null."""
        self._rows.append({name: _storable(value) for name, value in row.items()} | {"attempt": self._attempt})
        self._steps.add(int(row["step"]))
        if len(self._rows) >= self._rows_per_part or len(self._steps) > self._steps_per_part:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait, if any, as one part."""
        if not self._rows:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = self._folder / f"part-{self._next_part:06d}.parquet"
        temporary = target.with_suffix(".tmp")
        pq.write_table(pa.Table.from_pylist(self._rows, schema=_schema()), temporary, compression="zstd")
        temporary.replace(target)
        self._next_part += 1
        self._rows.clear()
        self._steps.clear()

    def close(self) -> None:
        self.flush()


def rollout_row(rollout: Rollout, *, step: int, prompt: str, completion: str, answer: str = "") -> dict[str, Any]:
    """The columns of one rollout, all but ``attempt`` and ``dropped``."""
    verdict = rollout.verdict
    judged = verdict is not None and verdict.judged
    oldest = rollout.oldest_version
    known = oldest != NO_VERSION
    scored = rollout.advantage is not None and rollout.trainable.any()
    return {
        "step": step,
        "group_id": rollout.group_id,
        "rollout_id": rollout.rollout_id,
        "prompt_id": rollout.prompt_id,
        "source": rollout.source,
        "prompt": prompt,
        "completion": completion,
        "answer": answer,
        "reward": verdict.reward if verdict is not None else None,
        "passed": verdict.passed if verdict is not None and judged else None,
        "reason": verdict.reason if verdict is not None else "",
        "error": verdict.error if verdict is not None else None,
        "finish_reason": rollout.finish_reason,
        "num_tokens": rollout.num_trainable,
        "lag": step - 1 - oldest if known else None,
        "oldest_version": oldest if known else None,
        "advantage": float(rollout.advantage[rollout.trainable].mean()) if scored else None,  # type: ignore[index]
    }


def read_rollouts(run_folder: str | Path, *, columns: Sequence[str] | None = None) -> Any:
    """All rows that are not superseded, as a ``pyarrow.Table`` in the order they were written (``.to_pylist()``)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = list(columns or COLUMNS)
    read = list(dict.fromkeys([*wanted, "step", "attempt"]))
    parts = [pq.read_table(path, columns=read) for path in _parts(Path(run_folder) / ROLLOUTS_FOLDER)]
    table = pa.concat_tables(parts) if parts else _schema().empty_table()
    return table.filter(_counts(table, last_steps(run_folder))).select(wanted)


def _storable(value: Any) -> Any:
    """Text as UTF-8 can hold it: a data set may bring half a surrogate pair, and that must not end a run."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _counts(table: Any, cuts: Mapping[int, float]) -> Any:
    """Boolean mask of the rows that are not superseded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mask = pa.array([True] * len(table), pa.bool_())
    for attempt, cut in cuts.items():
        of_another_attempt = pc.not_equal(table["attempt"], attempt)
        mask = pc.and_(mask, pc.or_(of_another_attempt, pc.less_equal(table["step"], cut)))
    return mask


def _schema() -> Any:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "float32": pa.float32(),
        "int32": pa.int32(),
        "int64": pa.int64(),
    }
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"), key=_part_number)


def _part_number(path: Path) -> int:
    return int(path.stem.removeprefix("part-"))
