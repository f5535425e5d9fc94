"""``rollouts/part-*.parquet``: every completion of a run, trained or dropped, one row each.

====================  =================================================================================================
step                  trainer's version after the step the rollout was trained in, or was cut for when dropped
attempt               attempt of the run that wrote the row (see attempts.py)
group_id, rollout_id, prompt_id, source
prompt, completion    text
answer                the gold answer, as text
reward                of the verdict; null when the completion could not be judged
reward_shaped         what trained; null when it is ``reward`` (nothing is shaped, or the rollout was not trained)
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

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.metrics.rollout_stats import rollout_stats
from headrace.records import NO_VERSION, Group, Verdict
from headrace.tracking.attempts import last_steps
from headrace.tracking.disk_full import DiskFull

ROLLOUTS_FOLDER = "rollouts"
_TEXT = ("group_id", "rollout_id", "prompt_id", "source", "prompt", "completion", "answer", "reason", "error")
COLUMNS: Mapping[str, str] = {
    "step": "int64",
    "attempt": "int32",
    **dict.fromkeys(_TEXT[:7], "string"),
    "reward": "float32",
    "reward_shaped": "float32",
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
_NO_VERDICT = Verdict(reward=None)


class RolloutStore:
    """Appends rollouts to Parquet parts in ``run_folder/rollouts``.

    A part is written once ``rows_per_part`` rows or ``steps_per_part`` different steps are waiting, and at ``flush``
    and ``close``. Rows that find the disk full are given up and counted in ``num_unwritten``; the next part is tried
    again.
    """

    def __init__(
        self, run_folder: str | Path, *, attempt: int = 1, rows_per_part: int = 8192, steps_per_part: int = 20
    ) -> None:
        self._folder = Path(run_folder) / ROLLOUTS_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        for leftover in self._folder.glob("*.tmp"):
            leftover.unlink()
        self.num_unwritten = 0
        self._disk = DiskFull("rollouts")
        self._attempt = attempt
        self._rows_per_part = rows_per_part
        self._steps_per_part = steps_per_part
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._steps: set[int] = set()
        self._next_part = 1 + max((_part_number(path) for path in _parts(self._folder)), default=0)

    def add(
        self,
        groups: Sequence[Group],
        completions: Sequence[str],
        *,
        step: int,
        answers: Sequence[str],
        dropped: str = "",
        shaped: Sequence[float | None] | None = None,
    ) -> None:
        """Add the rollouts of some groups: their texts in the same order, and a gold answer a group.

        ``step`` is the trainer's version after the step (``StepResult.version``). ``dropped`` says why the groups were
        not trained; a group without signal gives its own reason. ``shaped`` are the rewards, by rollout, that
        trained in place of the verdicts'. Raises ``ValueError`` when counts do not match.
        """
        if shaped is not None and len(shaped) != len(completions):
            raise ValueError(f"{len(shaped)} shaped rewards for {len(completions)} texts")
        for name, values in _columns(groups, completions, step=step, answers=answers, dropped=dropped).items():
            self._columns[name] += values
        self._columns["attempt"] += [self._attempt] * len(completions)
        self._columns["reward_shaped"] += [None] * len(completions) if shaped is None else shaped
        if completions:
            self._steps.add(step)
        if self._num_rows >= self._rows_per_part or len(self._steps) > self._steps_per_part:
            self.flush()

    @property
    def _num_rows(self) -> int:
        return len(self._columns["step"])

    def flush(self) -> None:
        """Write the rows that wait, if any, as one part."""
        num_rows, written = self._num_rows, False
        if not num_rows:
            return
        with self._disk.survive():
            self._write()
            written = True
        self.num_unwritten += 0 if written else num_rows
        for column in self._columns.values():
            column.clear()
        self._steps.clear()

    def _write(self) -> None:
        import pyarrow.parquet as pq

        target = self._folder / f"part-{self._next_part:06d}.parquet"
        temporary = target.with_suffix(".tmp")
        try:
            pq.write_table(_table(self._columns), temporary, compression="zstd")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        self._next_part += 1

    def close(self) -> None:
        self.flush()


def _columns(
    groups: Sequence[Group], completions: Sequence[str], *, step: int, answers: Sequence[str], dropped: str
) -> dict[str, list[Any]]:
    """The columns of all rollouts of some groups, all but ``attempt`` and ``reward_shaped``."""
    rollouts = [r for g in groups for r in g.rollouts]
    if len(completions) != len(rollouts) or len(answers) != len(groups):
        raise ValueError(
            f"{len(completions)} texts and {len(answers)} answers for {len(rollouts)} rollouts of {len(groups)} groups"
        )
    stats = rollout_stats(rollouts)
    oldest = [None if version == NO_VERSION else version for version in stats.oldest.tolist()]
    verdicts = [r.verdict or _NO_VERDICT for r in rollouts]

    def of_group(values: Sequence[str]) -> list[str]:
        return [value for group, value in zip(groups, values, strict=True) for _ in group.rollouts]

    return {
        "step": [step] * len(rollouts),
        "group_id": [r.group_id for r in rollouts],
        "rollout_id": [r.rollout_id for r in rollouts],
        "prompt_id": [r.prompt_id for r in rollouts],
        "source": [r.source for r in rollouts],
        "prompt": of_group([g.prompt.text for g in groups]),
        "completion": list(completions),
        "answer": of_group(answers),
        "reward": [v.reward for v in verdicts],
        "passed": [v.passed if v.judged else None for v in verdicts],
        "reason": [v.reason for v in verdicts],
        "error": [v.error for v in verdicts],
        "finish_reason": [r.finish_reason for r in rollouts],
        "num_tokens": stats.num_trainable.tolist(),
        "lag": [None if version is None else step - 1 - version for version in oldest],
        "oldest_version": oldest,
        "advantage": [None if math.isnan(value) else value for value in stats.advantage.tolist()],
        "dropped": of_group([dropped or ("" if g.signal else g.drop_reason or "no signal") for g in groups]),
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


def _table(columns: Mapping[str, Sequence[Any]]) -> Any:
    import pyarrow as pa

    schema = _schema()
    arrays = [_text(columns[f.name]) if f.type == pa.string() else pa.array(columns[f.name], f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _text(values: Sequence[str | None]) -> Any:
    """Text as UTF-8 can hold it: a data set may bring half a surrogate pair, and that must not end a run."""
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        held = [None if v is None else v.encode("utf-8", "replace").decode("utf-8") for v in values]
        return pa.array(held, pa.string())


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
