"""Where a fit starts. For given (C_mid, B) the sigmoid is linear in R0 and A - R0: a coarse grid of the two will do."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from headrace.scaling.curve import Array
from headrace.scaling.least_squares import Problems

NUM_MID, NUM_B = 40, 14


def best_starts(problems: Problems) -> Array:
    """For every problem the best cell of a log-spaced grid, as theta with U the ceiling, (D, 4).

    The grid covers the bounds of (C_mid, B) shared by all rows (those of the first are used); R0 and A come from the
    weighted linear regression on the cell's sigmoid, clipped to their bounds.
    """
    lower, upper = problems.lower[0], problems.upper[0]
    cells = np.meshgrid(np.linspace(lower[2], upper[2], NUM_MID), np.linspace(lower[3], upper[3], NUM_B))
    mid, b = cells[0].ravel(), cells[1].ravel()
    share = expit(np.exp(b)[:, None] * (problems.log_compute[None, :] - mid[:, None]))
    base, ceiling, total = _regress(problems, share)
    best = np.argmin(total, axis=1)
    rows = np.arange(len(best))
    return np.stack([base[rows, best], ceiling[rows, best], mid[best], b[best]], axis=1)


def _regress(problems: Problems, share: Array) -> tuple[Array, Array, Array]:
    """R0, A and the sum of squares up to a constant for every problem and cell, each (D, K)."""
    weight, wy = problems.weight, problems.weight * problems.score
    sum_w, sum_y = weight.sum(axis=1)[:, None], wy.sum(axis=1)[:, None]
    sum_s, sum_ss, sum_ys = weight @ share.T, weight @ (share**2).T, wy @ share.T
    lower, upper = problems.lower[:, None, :], problems.upper[:, None, :]
    spread = np.maximum(sum_w * sum_ss - sum_s**2, 1e-12 * sum_w**2)
    gain = (sum_w * sum_ys - sum_s * sum_y) / spread
    base = np.clip((sum_y - gain * sum_s) / sum_w, lower[..., 0], upper[..., 0])
    gain = (sum_ys - base * sum_s) / np.maximum(sum_ss, 1e-12 * sum_w)
    ceiling = np.clip(base + gain, np.maximum(lower[..., 1], base), upper[..., 1])
    gain = ceiling - base
    total = base**2 * sum_w + gain**2 * sum_ss + 2 * base * gain * sum_s - 2 * base * sum_y - 2 * gain * sum_ys
    return base, ceiling, total
