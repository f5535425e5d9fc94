"""When a fit says nothing about the future: the rules by which extrapolation is refused, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace.scaling.curve import Array
from headrace.scaling.noise import local_error
from headrace.scaling.points import Points

WIDEST_CEILING = 0.05
FALL_ERRORS = 3.0


def too_wide(interval: tuple[float, float], level: float) -> str | None:
    """The interval of the ceiling must not be wider than .05."""
    width = interval[1] - interval[0]
    if width <= WIDEST_CEILING:
        return None
    return (
        f"the {level:.0%} interval of A is {interval[0]:.3f}..{interval[1]:.3f}, wider than {WIDEST_CEILING:g}: "
        "the data do not show where the curve levels off"
    )


def too_short(largest_compute: float, C_mid: float) -> str | None:  # noqa: N803
    """The data must reach past the middle of the rise."""
    if largest_compute >= C_mid:
        return None
    return f"the largest compute, {largest_compute:.6g}, is below C_mid = {C_mid:.6g}: less than half the rise was seen"


def falling(run: Points, error: Array) -> str | None:
    """The last quarter's mean must not lie more than 3 standard errors below the highest earlier quarter-long mean.

    Means of a quarter are compared with each other: the highest single point of a noisy curve lies above everything.
    ``error`` (N,) is what the points' errors are without the curve (a collapse must not pass for noise about a bad
    fit); where neighbours scatter by more, their scatter counts.
    """
    later = run.compute > 0
    score, sigma = run.score[later], np.maximum(error[later], np.nan_to_num(local_error([run])))
    quarter = max(len(score) // 4, 2)
    if len(score) < 2 * quarter:
        return None
    means = np.convolve(score, np.full(quarter, 1 / quarter), mode="valid")
    errors = np.sqrt(np.convolve(sigma**2, np.full(quarter, 1 / quarter**2), mode="valid"))
    earlier = len(score) - 2 * quarter + 1  # windows that end before the last quarter begins
    peak = int(np.argmax(means[:earlier]))
    fall = float(means[peak] - means[-1])
    spread = math.hypot(errors[peak], errors[-1])
    if fall <= max(FALL_ERRORS * spread, 1e-9):
        return None
    return (
        f"{run.name} falls: the last quarter's mean {means[-1]:.4f} is {fall / max(spread, 1e-9):.3g} standard errors "
        f"below the running peak {means[peak]:.4f}; a saturating curve does not fall"
    )


def flat(runs: Sequence[Points], theta: Array, sum_of_squares: float, error: Array) -> str | None:
    """There must be a rise: a sigmoid upwards that beats a constant by more than chance (about 1 in 1,000) allows.

    ``error`` (N,) and ``sum_of_squares`` are those of the runs' points one after the other.
    """
    score = np.concatenate([run.score for run in runs])
    if np.ptp(score) == 0:
        return f"all scores are {score[0]:g}: there is no rise to fit"
    if theta[1] <= theta[0]:
        return "the scores fall with compute: there is no rise to fit"
    weight = 1 / error**2
    mean = np.sum(weight * score) / np.sum(weight)
    if np.sum(weight * (score - mean) ** 2) - sum_of_squares < 16.3:  # chi-squared with 3 degrees of freedom, .999
        return "the scores do not rise by more than chance: there is nothing to fit"
    return None
