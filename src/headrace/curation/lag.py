"""The bound on lag as a function of the step (from 0). A bound never rises: deadlines rest on that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.curation.schedules import first_final_step

Bound = Callable[[int], int]


def constant_lag(max_lag: int) -> Bound:
    """The same bound at every step. Raises ``ValueError`` below 0."""
    if max_lag < 0:
        raise ValueError(f"max_lag {max_lag} is below 0")

    def bound(step: int) -> int:
        return max_lag

    return bound


def final_fraction_lag(
    max_lag: int, total_steps: int, *, final_frac: float = 0.2, factor: float = 0.5, end: int | None = None
) -> Bound:
    """``max_lag``, and ``end`` in the last ``final_frac`` of the steps (None: ``factor`` x ``max_lag``, rounded down).

    The defaults are what an article on ScaleRL calls halving the lag in the last fifth: 8 becomes 4.
    Raises ``ValueError`` as ``linear_lag`` does.
    """
    low = int(max_lag * factor) if end is None else end
    _check(max_lag, low, total_steps)
    first = first_final_step(total_steps, final_frac)

    def bound(step: int) -> int:
        return low if step >= first else max_lag

    return bound


def linear_lag(max_lag: int, total_steps: int, *, end: int = 0) -> Bound:
    """From ``max_lag`` at step 0 evenly down to ``end`` at the last step, rounded down.

    Raises ``ValueError`` for a bound below 0 or one that rises, or without a step.
    """
    _check(max_lag, end, total_steps)
    last = max(total_steps - 1, 1)

    def bound(step: int) -> int:
        return (max_lag * last - (max_lag - end) * min(max(step, 0), last)) // last

    return bound


LAG_SCHEDULES: Mapping[str, Callable[[int, int, int, float], Bound]] = {
    "linear": lambda max_lag, end, total, final_frac: linear_lag(max_lag, total, end=end),
    "final": lambda max_lag, end, total, final_frac: final_fraction_lag(max_lag, total, final_frac=final_frac, end=end),
}
"""Shape -> schedule(max_lag, end, total_steps, final_frac)."""


def _check(start: int, end: int, total_steps: int) -> None:
    if not 0 <= end <= start:
        raise ValueError(f"a lag bound goes from {start} to {end}; it may neither rise nor fall below 0")
    if total_steps < 1:
        raise ValueError(f"a schedule over {total_steps} steps has no step")
