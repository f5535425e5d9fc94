"""Two recipes side by side: which has the higher ceiling, which gets there with less compute, which is ahead when.

Ceiling and efficiency trade off against each other in a fit, so efficiency is compared the way the ScaleRL paper does
it: B is fitted again with A held at the mean of both ceilings (arXiv 2510.13786, section 2.1 and appendix A.5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from headrace.errors import ConfigError, DataError
from headrace.scaling.bootstrap import quantile_interval
from headrace.scaling.estimate import problem_of
from headrace.scaling.forecast import MARGIN
from headrace.scaling.least_squares import LOG_B, U, solve
from headrace.scaling.points import check_same_unit
from headrace.scaling.profile import profile_ends
from headrace.scaling.result import Fit

_REACH = 10.0  # crossings are looked for up to this many times the largest compute


@dataclass(frozen=True, slots=True)
class Comparison:
    """``first`` against ``second``; differences are first minus second. NaN (None in JSON) where a fit is refused.

    ``common_ceiling`` is the ceiling held for ``refit_b`` of both, with ``refit_b_intervals``. ``A_verdict`` and
    ``B_verdict`` name the better recipe, or say "no difference" or "unknown" (of B also
    "ceilings differ": a common ceiling then fits neither). ``crossings`` are the computes at which
    the fitted curves meet. ``probability_first_better`` is at ``compute``, equal for both; ``ceiling_probability``
    the chance that the first ceiling is the higher one.
    """

    first: str
    second: str
    unit: str
    margin: float
    A_difference: float
    A_interval: tuple[float, float]
    A_verdict: str
    common_ceiling: float
    refit_b: tuple[float, float]
    refit_b_intervals: tuple[tuple[float, float], tuple[float, float]]
    B_verdict: str
    crossings: tuple[float, ...]
    compute: float
    difference: float
    difference_interval: tuple[float, float]
    probability_first_better: float
    ceiling_probability: float
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {key: _plain(value) for key, value in asdict(self).items()}


def compare(
    first: Fit, second: Fit, *, names: tuple[str, str], compute: float | None = None, margin: float = MARGIN
) -> Comparison:
    """Compare two fits at equal ``compute``, by default the largest that both have reached.

    What needs the ceiling is NaN unless both curves are identified; so is everything beyond the data. The two count as
    different in A when the difference exceeds ``margin`` and its interval, which holds the seeds' spread, excludes 0.
    Raises ``DataError`` for different units.
    """
    unit = check_same_unit([*first.runs, *second.runs])
    shared = min(first.largest_compute, second.largest_compute)
    at = shared if compute is None else compute
    if not (at > 0 and margin >= 0):
        raise ConfigError("a comparison needs compute above 0 and a margin of at least 0")
    level = first.options.level
    reasons = tuple(f"{name}: {why}" for name, fit in zip(names, (first, second)) for why in fit.reasons)
    whole = first.identified and second.identified
    ceilings = _paired(first.draws[:, U], second.draws[:, U]) if whole else np.array([math.nan])
    gap = first.A - second.A if whole else math.nan
    gap_interval = quantile_interval(ceilings, level)
    ceiling = _by_margin(names, gap, gap_interval, margin)
    common = (first.A + second.A) / 2 if whole else math.nan
    refits = [refit_b(fit, common) if whole else (math.nan, (math.nan, math.nan)) for fit in (first, second)]
    known = math.isfinite(first.A) and math.isfinite(second.A) and (whole or at <= shared)
    ahead = _paired(first.drawn_at(at)[:, 0], second.drawn_at(at)[:, 0]) if known else np.array([math.nan])
    return Comparison(
        first=names[0],
        second=names[1],
        unit=unit,
        margin=margin,
        A_difference=gap,
        A_interval=gap_interval,
        A_verdict=ceiling,
        common_ceiling=common,
        refit_b=(refits[0][0], refits[1][0]),
        refit_b_intervals=(refits[0][1], refits[1][1]),
        B_verdict=_apart(names, refits[0][1], refits[1][1]) if ceiling == "no difference" else _no_b(ceiling),
        crossings=tuple(crossings(first, second, whole)) if known else (),
        compute=at,
        difference=float(first.at(at) - second.at(at)) if known else math.nan,
        difference_interval=quantile_interval(ahead, level),
        probability_first_better=_share_above_zero(ahead),
        ceiling_probability=_share_above_zero(ceilings),
        reasons=reasons,
    )


def refit_b(fit: Fit, ceiling: float) -> tuple[float, tuple[float, float]]:
    """B and its interval with A held at ``ceiling``; with several seeds the interval holds their spread as well."""
    lower, upper = fit.box[0].copy(), fit.box[1].copy()
    lower[U] = upper[U] = ceiling
    problems = problem_of(fit.runs, fit.noise.error, (lower, upper))
    theta, total = solve(problems, fit.theta[None, :])
    low, high = (float(end[0]) for end in profile_ends(problems, theta, total, LOG_B, np.array([fit.noise.z])))
    if len(fit.run_thetas) > 1:
        low, high = _with_seeds(fit, lower, upper, float(theta[0, LOG_B]), (low, high))
    return math.exp(theta[0, LOG_B]), (math.exp(low), math.exp(high))


def crossings(first: Fit, second: Fit, whole: bool = True) -> list[float]:
    """Computes > 0 at which the two curves meet, up to the data's end, or ten times that when both are identified."""
    positive = np.concatenate([run.compute[run.compute > 0] for fit in (first, second) for run in fit.runs])
    end = _REACH * positive.max() if whole else min(first.largest_compute, second.largest_compute)
    at = np.geomspace(positive.min(), end, 2000)
    gap = first.at(at) - second.at(at)
    places = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
    return [float(brentq(lambda c: float(first.at(c) - second.at(c)), at[i], at[i + 1])) for i in places]


def _with_seeds(
    fit: Fit, lower: np.ndarray, upper: np.ndarray, best: float, ends: tuple[float, float]
) -> tuple[float, float]:
    from scipy.stats import t

    errors = np.split(fit.noise.error, np.cumsum([len(run) for run in fit.runs])[:-1])
    own = []
    for run, error, start in zip(fit.runs, errors, fit.run_thetas):
        held = problem_of([run], error, (lower, upper))
        own.append(float(solve(held, start[None, :])[0][0, LOG_B]))
    k = len(own)
    half = float(t.ppf(0.5 + fit.options.level / 2, k - 1) * np.std(own, ddof=1) / math.sqrt(k))
    return min(ends[0], best - half), max(ends[1], best + half)


def _paired(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Differences of independent draws; the shorter set decides how many."""
    count = min(len(first), len(second))
    # Both sets come from the same random stream: shifted against each other they are independent.
    return np.asarray(first[:count] - np.roll(second, 1)[:count])


def _share_above_zero(values: np.ndarray) -> float:
    return float(np.mean(values > 0) + np.mean(values == 0) / 2) if np.isfinite(values).all() else math.nan


def _by_margin(names: tuple[str, str], gap: float, interval: tuple[float, float], margin: float) -> str:
    if not math.isfinite(gap):
        return "unknown"
    if abs(gap) <= margin or interval[0] <= 0 <= interval[1]:
        return "no difference"
    return names[0] if gap > 0 else names[1]


def _no_b(ceiling_verdict: str) -> str:
    """B at a common ceiling means something only where the ceilings are equal: held too low, A drives B up."""
    return "unknown" if ceiling_verdict == "unknown" else "ceilings differ"


def _apart(names: tuple[str, str], first: tuple[float, float], second: tuple[float, float]) -> str:
    if not math.isfinite(first[0] + second[0]):
        return "unknown"
    if first[0] > second[1]:
        return names[0]
    return names[1] if second[0] > first[1] else "no difference"


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compare_all(fits: Sequence[Fit], names: Sequence[str], **options: Any) -> list[Comparison]:
    """Every recipe against the first one given."""
    if len(fits) < 2:
        raise DataError("a comparison needs at least two runs")
    return [compare(fits[0], fit, names=(names[0], name), **options) for fit, name in zip(fits[1:], names[1:])]
