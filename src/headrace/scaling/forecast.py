"""Where a run will be at a given compute, and whether going on is worth it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headrace.errors import ConfigError
from headrace.scaling.bootstrap import quantile_interval
from headrace.scaling.curve import Array
from headrace.scaling.intervals import forecast_interval
from headrace.scaling.least_squares import LOG_B, LOG_MID, R0, U
from headrace.scaling.result import Fit

MARGIN = 0.02  # arXiv 2510.13786: ceilings of equal runs differ by up to this


@dataclass(frozen=True, slots=True)
class Forecast:
    """The pass rate expected at ``compute``. ``value`` and ``interval`` are NaN when it is refused, see ``reasons``."""

    compute: float
    value: float
    interval: tuple[float, float]
    level: float
    unit: str
    beyond_data: bool
    reasons: tuple[str, ...]

    @property
    def refused(self) -> bool:
        return math.isnan(self.value)

    def to_json(self) -> dict[str, Any]:
        said = asdict(self)
        if self.refused:
            said |= {"value": None, "interval": None}
        return said


@dataclass(frozen=True, slots=True)
class Verdict:
    """``decision`` is "continue", "stop" or "unknown" (the fit is refused); ``why`` is a sentence with the figures.

    ``probability`` is the share of draws in favour of going on, NaN when unknown.
    """

    decision: str
    why: str
    probability: float


def forecast(fit: Fit, compute: float) -> Forecast:
    """The curve at ``compute`` (>= 0, in the fit's unit). Beyond the data only an identified curve says anything."""
    if not (math.isfinite(compute) and compute >= 0):
        raise ConfigError(f"a forecast needs a finite compute >= 0; found {compute:g}")
    beyond = compute > fit.largest_compute
    reasons = fit.reasons if beyond or math.isnan(fit.A) else ()
    value, interval = math.nan, (math.nan, math.nan)
    if not reasons:
        value = float(fit.at(compute))
        interval = fit.intervals["R0"] if compute == 0 else forecast_interval(fit, compute)
    return Forecast(compute, value, interval, fit.options.level, fit.unit, beyond, reasons)


def against_target(fit: Fit, target: float, budget: float) -> Verdict:
    """Go on towards pass rate ``target`` within ``budget`` (total compute)? Stop when fewer than 5 % of draws get
    there, or when the curve is there already."""
    if not 0 < target < 1:
        raise ConfigError(f"a target is a pass rate between 0 and 1; found {target:g}")
    unknown = _unknown(fit, budget)
    if unknown:
        return unknown
    now = float(fit.at(fit.largest_compute))
    chance = float(np.mean(fit.drawn_at(budget)[:, 0] >= target))
    if now >= target:
        return Verdict("stop", f"the target {target:g} is reached: the curve stands at {now:.3f}", 1.0)
    said = f"{chance:.0%} of the draws reach {target:g} by {budget:.6g} {fit.unit}"
    if chance < 0.05:
        return Verdict("stop", f"{said}; the ceiling is {fit.A:.3f}", chance)
    needed = needed_compute(fit, target)
    return Verdict("continue", f"{said}; it is expected at {needed[0]:.4g} ({_range(needed[1])})", chance)


def against_budget(fit: Fit, budget: float, margin: float = MARGIN) -> Verdict:
    """Go on to ``budget``? Stop when the gain still to come is below ``margin`` in more than 95 % of draws."""
    unknown = _unknown(fit, budget)
    if unknown:
        return unknown
    if budget <= fit.largest_compute:
        return Verdict("stop", f"the budget {budget:.6g} {fit.unit} is spent", 0.0)
    gains = np.diff(fit.drawn_at([fit.largest_compute, budget]), axis=1)[:, 0]
    chance = float(np.mean(gains >= margin))
    low, high = quantile_interval(gains, fit.options.level)
    said = f"up to {budget:.6g} {fit.unit} the pass rate gains {np.median(gains):.3f} ({low:.3f}..{high:.3f}) more"
    if chance < 0.05:
        return Verdict("stop", f"{said}, less than the margin {margin:g}", chance)
    return Verdict("continue", said, chance)


def needed_compute(fit: Fit, target: float) -> tuple[float, tuple[float, float]]:
    """Compute at which the curve passes ``target``: median over draws, and interval; infinite where it never does."""
    needed = _reach(fit.draws, target)
    tail = 0.5 - fit.options.level / 2
    middle, low, high = (float(np.quantile(needed, q, method="nearest")) for q in (0.5, tail, 1 - tail))
    return middle, (low, high)


def _reach(theta: Array, target: float) -> Array:
    base, ceiling = theta[:, R0], theta[:, U]
    odds = (target - base) / np.where(ceiling > target, ceiling - target, np.nan)
    log_needed = theta[:, LOG_MID] + np.log(np.maximum(odds, 1e-300)) / np.exp(theta[:, LOG_B])
    return np.asarray(np.where(ceiling > target, np.exp(np.minimum(log_needed, 700.0)), np.inf))


def _unknown(fit: Fit, budget: float) -> Verdict | None:
    said = forecast(fit, budget)
    return Verdict("unknown", "no forecast: " + "; ".join(said.reasons), math.nan) if said.refused else None


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g}..{interval[1]:.4g}" if math.isfinite(interval[1]) else f"{interval[0]:.4g} or never"
