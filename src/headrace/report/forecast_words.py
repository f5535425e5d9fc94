"""A run's forecast of its own end in one short line."""

from __future__ import annotations

from headrace.report.glyphs import figure
from headrace.scaling.made import Interval, MadeForecast


def forecast_line(made: MadeForecast) -> str:
    """Forecast and ceiling with their intervals, or why there is none yet. ASCII, no label.

    >>> forecast_line(MadeForecast(version=8, compute=1, unit="steps", target_step=60, num_points=3, level=0.9,
    ...                            reasons=("3 evaluations of the 6 a fit needs",)))
    'not yet: 3 evaluations of the 6 a fit needs'
    """
    if not made.identified:
        return f"not yet: {short_reason(made)}"
    ceiling = f"ceiling {with_interval(made.A, made.interval_A)}"
    if made.value is None:
        return ceiling
    return f"{with_interval(made.value, made.interval)} at step {made.target_step}, {ceiling}"


def with_interval(value: float | None, interval: Interval | None) -> str:
    """0.597 (0.590..0.605)."""
    if interval is None:
        return figure(value, 3)
    return f"{figure(value, 3)} ({figure(interval[0], 3)}..{figure(interval[1], 3)})"


def short_reason(made: MadeForecast) -> str:
    """The first reason without its explanation."""
    return made.reasons[0].partition(": ")[0] if made.reasons else "the curve is not identified"
