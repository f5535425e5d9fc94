"""How far an evaluation is expected to lie from the curve: errors of points, and what their scatter says about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, ndtri, stdtrit

from headrace.scaling.curve import Array
from headrace.scaling.points import Points

_SUSPICIOUS = 0.01  # chance of a scatter this large below which the stated errors are not believed
_LEAST_RATE = 1e-3  # keeps an all-right evaluation from having no error at all


@dataclass(frozen=True, slots=True)
class Noise:
    """Errors of the points of a fit, (N,), as they are used for intervals, and how many of them z makes an interval.

    ``error`` is final; ``stated`` says whether it came with the data, ``excess`` by how much the scatter made it larger
    (1 where it was believed), ``wander`` by how much more because neighbours err alike (``wander.py``); ``z`` is the
    half width of the interval in errors.
    """

    error: Array
    stated: bool
    excess: float
    z: float
    wander: float = 1.0

    @property
    def single(self) -> Array:
        """The stated error of single points, (N,), before scatter and wandering made it larger; 0 when unstated."""
        return self.error / (self.excess * self.wander) if self.stated else np.zeros_like(self.error)


def binomial_error(rate: ArrayLike, n: ArrayLike) -> Array:
    """sqrt(p (1 - p) / n) of a pass rate over ``n`` independent completions."""
    p = np.clip(np.asarray(rate, dtype=np.float64), _LEAST_RATE, 1 - _LEAST_RATE)
    return np.asarray(np.sqrt(p * (1 - p) / np.asarray(n, dtype=np.float64)))


def within_prompt_error(passes: ArrayLike, samples: ArrayLike) -> float:
    """Standard error of the mean over prompts of passes / samples when the same prompts are evaluated every time.

    How hard the prompts are then shifts the whole curve and scatters no point about it, so only the chance within each
    prompt counts: sqrt(sum p_i (1 - p_i) / (k_i - 1)) / P, unbiased. ``passes`` and ``samples`` (P,), samples >= 2.
    """
    c, k = np.asarray(passes, dtype=np.float64), np.asarray(samples, dtype=np.float64)
    variance = float(np.sum(c / k * (1 - c / k) / (k - 1))) / len(c) ** 2
    return max(math.sqrt(variance), float(binomial_error(0.0, np.sum(k))))


def within_prompt_error_from_pass_at_2(pass_at_1: float, pass_at_2: float, num_completions: int) -> float:
    """The same from pass@1 and pass@2: their difference is unbiased for the mean of p (1 - p) over prompts."""
    variance = max(pass_at_2 - pass_at_1, 0.0) / num_completions
    return max(math.sqrt(variance), float(binomial_error(0.0, num_completions)))


def expected_error(points: Points, rate: ArrayLike) -> Array:
    """Error of every point, (N,), at true pass rates ``rate``: as stated, binomial, or binomial of unknown size."""
    if points.error is not None:
        return points.error
    return binomial_error(rate, 1.0 if points.n is None else points.n)


def judge(error: Array, stated: bool, sum_of_squares: float, num_parameters: int, level: float) -> Noise:
    """Settle errors and z after a fit left ``sum_of_squares`` (in units of ``error``^2).

    Unstated errors are scaled to the scatter. Stated ones are believed unless the scatter is too large for chance
    (1 %); then they are scaled up to it (the policy itself wanders between evaluations). Scaled errors take Student's
    t.
    """
    dof = max(len(error) - num_parameters, 1)
    ratio = max(sum_of_squares / dof, 1e-12)
    if stated and chdtrc(dof, sum_of_squares) >= _SUSPICIOUS:
        return Noise(error, True, 1.0, float(ndtri(0.5 + level / 2)))
    scale = math.sqrt(ratio)
    return Noise(error * scale, stated, scale if stated else 1.0, float(stdtrit(dof, 0.5 + level / 2)))


def local_error(runs: Sequence[Points]) -> float:
    """Typical error of one point from second differences of neighbours, which a smooth curve hardly moves.

    It needs no fit, so it stays honest where the curve is not a sigmoid. NaN with fewer than four points in every run.
    """
    bends = [np.diff(run.score[run.compute > 0], n=2) for run in runs]
    squares = np.concatenate([bend**2 for bend in bends]) if bends else np.empty(0)
    return float(np.sqrt(np.mean(squares) / 6.0)) if len(squares) > 1 else math.nan
