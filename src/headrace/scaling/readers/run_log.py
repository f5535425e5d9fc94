"""The evaluations of a Headrace run as points: lines of ``evals.jsonl`` in, one curve out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import DataError, nearest
from headrace.scaling.defaults import COMPUTE_FIELDS
from headrace.scaling.noise import binomial_error, within_prompt_error_from_pass_at_2
from headrace.scaling.points import Points, checked_points


def points_from_evals(
    rows: Sequence[Mapping[str, Any]], *, name: str, compute: str | None = None, score: str | None = None
) -> Points:
    """``Points`` of a run. ``compute`` is a field of the lines' ``compute`` (default ``device_s``), ``score`` one of
    their figures (default ``mean_at_n``).

    Every evaluation of a run uses the same prompts, so the error of a point is that within prompts; with one sample a
    prompt, from which that cannot be told, the binomial one, which is larger. Errors are known for ``mean_at_n`` only.
    """
    field, figure = compute or COMPUTE_FIELDS[0], score or "mean_at_n"
    if field not in COMPUTE_FIELDS:
        raise DataError(f"{name}: a run records no compute '{field}'.{nearest(field, COMPUTE_FIELDS)}")
    # A run resumed at a step it had evaluated evaluates it again: the same weights, counted once.
    kept = list({row["version"]: row for row in rows if row.get(figure) is not None}.values())
    if not kept:
        raise DataError(f"{name}: no evaluation has a '{figure}'")
    missing = next((row for row in kept if field not in row.get("compute", {})), None)
    if missing is not None:
        raise DataError(f"{name}: the evaluation of step {missing.get('step')} does not say its compute")
    return checked_points(
        [row["compute"][field] for row in kept],
        [row[figure] for row in kept],
        error=[evaluation_error(row) for row in kept] if figure == "mean_at_n" else None,
        unit=field,
        name=name,
    )


def evaluation_error(row: Mapping[str, Any]) -> float:
    """Standard error of ``mean_at_n`` about the run's curve when the prompts stay the same."""
    completions = max(int(row["num_completions"] * (1 - (row.get("unjudged_frac") or 0.0))), 1)
    both = row.get("pass_at_k", {})
    if both.get("1") is None or both.get("2") is None:
        return float(binomial_error(row["mean_at_n"], completions))
    return within_prompt_error_from_pass_at_2(both["1"], both["2"], completions)
