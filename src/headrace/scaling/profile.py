"""Profile-likelihood intervals: how far one parameter can be moved before the best fit with it held gets too bad.

For a parameter p with least sum of squares S(p) over all others, the interval is {p : S(p) - S_min <= z^2} in units of
the error variance (Wilks; for curves, Venzon and Moolgavkar 1988). It follows the skew of the sum of squares, where
estimate +- z standard errors does not. The ends of many problems are searched at once by a secant on
sqrt(S - S_min), which is nearly linear in p.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.scaling.curve import Array
from headrace.scaling.least_squares import Problems, covariance, solve

SEARCH_STEPS = 16
_CLOSE = 0.01  # of z
_FIRST_STEP = (0.05, 0.05, 0.7, 0.7)  # of theta


def profile_ends(problems: Problems, theta: Array, total: Array, index: int, z: Array) -> tuple[Array, Array]:
    """Lower and upper end of ``theta[:, index]``, each (D,), in theta's own scale (C_mid and B as logarithms).

    ``theta`` (D, 4) and ``total`` (D,) are the optimum; ``z`` (D,) is the half width in units of the weights' errors.
    An end that the bounds of the problem cut off is that bound.
    """
    error = np.sqrt(np.clip(covariance(problems, theta)[:, index, index], 1e-24, None))
    both = np.concatenate([np.arange(len(theta))] * 2)
    side = np.repeat([-1.0, 1.0], len(theta))
    ends = _search(problems.take(both), theta[both], total[both], index, side, z[both], error[both])
    return ends[: len(theta)], ends[len(theta) :]


def _search(problems: Problems, theta: Array, total: Array, index: int, side: Array, z: Array, error: Array) -> Array:
    """The end on one side of every row: bracketed secant on g(p) = sqrt(S(p) - S_min) - z."""
    best = theta[:, index]
    limit = np.where(side < 0, problems.lower[:, index], problems.upper[:, index])
    inside, g_inside = best.copy(), -z
    outside, g_outside = limit.copy(), np.full(len(best), np.inf)
    # An ill-determined parameter has an error that means nothing: the first look is not far away.
    at = _within(best + side * np.minimum(z * error, _FIRST_STEP[index]), best, limit)
    warm, end = theta.copy(), at.copy()
    rows = np.arange(len(best))
    for _ in range(SEARCH_STEPS):
        held = _held(problems.take(rows), index, at[rows])
        found, sums = solve(held, _moved(warm[rows], index, at[rows]), tolerance=1e-6)
        g = np.sqrt(np.maximum(sums - total[rows], 0.0)) - z[rows]
        end[rows] = at[rows]
        under = g < 0
        warm[rows[under]] = found[under]
        inside[rows[under]], g_inside[rows[under]] = at[rows[under]], g[under]
        outside[rows[~under]], g_outside[rows[~under]] = at[rows[~under]], g[~under]
        done = (np.abs(g) < _CLOSE * z[rows]) | (under & (at[rows] == limit[rows]))
        rows = rows[~done]
        if len(rows) == 0:
            break
        at[rows] = _next(inside, g_inside, outside, g_outside, best, z, limit, rows)
    return end


def _next(
    inside: Array,
    g_inside: Array,
    outside: Array,
    g_outside: Array,
    best: Array,
    z: Array,
    limit: Array,
    rows: np.ndarray,
) -> Array:
    """Where to look next: by the secant where the end is bracketed, else by stretching what was walked so far."""
    a, ga, b, gb = inside[rows], g_inside[rows], outside[rows], g_outside[rows]
    bracketed = np.isfinite(gb)
    share = np.where(bracketed, -ga / np.where(bracketed, gb - ga, 1.0), 0.0)
    secant = a + np.clip(share, 0.08, 0.92) * (b - a)
    reached = np.maximum(ga + z[rows], 0.2 * z[rows])
    stretched = best[rows] + (a - best[rows]) * np.minimum(z[rows] / reached * 1.1, 4.0)
    return np.where(bracketed, secant, _within(stretched, best[rows], limit[rows]))


def _within(at: Array, best: Array, limit: Array) -> Array:
    return np.clip(at, np.minimum(best, limit), np.maximum(best, limit))


def _held(problems: Problems, index: int, at: Array) -> Problems:
    lower, upper = problems.lower.copy(), problems.upper.copy()
    lower[:, index] = upper[:, index] = at
    return replace(problems, lower=lower, upper=upper)


def _moved(theta: Array, index: int, at: Array) -> Array:
    moved = theta.copy()
    moved[:, index] = at
    return moved
