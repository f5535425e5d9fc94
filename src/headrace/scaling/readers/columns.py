"""Which columns of a table are compute, score, count and error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import DataError, nearest
from headrace.scaling.points import Points, checked_points

Row = Mapping[str, Any]

COMPUTE_NAMES = (
    "compute", "C", "device_s", "device_seconds", "gpu_hours", "flops", "total_flos", "tokens_trained", "tokens",
    "num_tokens", "num_input_tokens_seen", "steps", "step", "Step", "_step", "global_step", "train/global_step",
)  # fmt: skip
SCORE_NAMES = (
    "score", "pass_rate", "mean_at_n", "accuracy", "eval/mean_at_n", "eval/pass_rate", "eval/accuracy", "eval_accuracy",
    "eval_pass_rate", "eval_reward", "eval/reward", "eval_rewards/mean",
)  # fmt: skip
COUNT_NAMES = ("n", "num_completions")
ERROR_NAMES = ("error",)


def points_from_rows(rows: Sequence[Row], *, name: str, compute: str | None = None, score: str | None = None) -> Points:
    """``Points`` of a table. ``compute`` and ``score`` name columns; by default the first known name that is there.

    Rows without a score (other lines of a log) are left out; a score without compute is an error. The unit is the name
    of the compute column. Raises ``DataError`` naming the columns there are, and for values that are no numbers.
    """
    names = list(dict.fromkeys(key for row in rows for key in row))
    if not names:
        raise DataError(f"{name}: there is nothing in it")
    score = _choose(score, SCORE_NAMES, names, "score", name)
    compute = _choose(compute, COMPUTE_NAMES, names, "compute", name)
    kept = [(number, row) for number, row in enumerate(rows, 1) if not _blank(row.get(score))]
    if not kept:
        raise DataError(f"{name}: column '{score}' has no values")
    count = next((key for key in COUNT_NAMES if key in names), None)
    error = next((key for key in ERROR_NAMES if key in names), None)
    columns = {key: [_number(row.get(key), key, i, name) for i, row in kept] for key in (compute, score)}
    return checked_points(
        columns[compute],
        columns[score],
        n=None if count is None else [_number(row.get(count), count, i, name) for i, row in kept],
        error=None if error is None else [_number(row.get(error), error, i, name) for i, row in kept],
        unit=compute,
        name=name,
    )


def _choose(wanted: str | None, known: Sequence[str], names: Sequence[str], what: str, name: str) -> str:
    if wanted is not None:
        if wanted not in names:
            raise DataError(f"{name} has no column '{wanted}'.{nearest(wanted, names)} Columns: {_listed(names)}")
        return wanted
    found = next((key for key in known if key in names), None)
    if found is None:
        raise DataError(
            f"{name}: no column is known to be the {what}; name it with --{what}. Columns: {_listed(names)}"
        )
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _blank(value: Any) -> bool:
    """No value at all. NaN is one: somebody wrote it, and it is an error, not a gap."""
    return value is None or (isinstance(value, str) and not value.strip())


def _number(value: Any, column: str, row: int, name: str) -> float:
    if isinstance(value, str) and value.strip().lower() in ("nan", "null"):
        return math.nan
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{name}: row {row}: {column} is {value!r}, not a number") from None
