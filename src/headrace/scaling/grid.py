"""The fit of the ScaleRL paper: a grid over (A, C_mid), B alone fitted in every cell, the smallest sum of squares kept.

Source: arXiv 2510.13786, appendix A.5: A in {.450, .455, ..., .800} and 100 evenly spaced C_mid. R0 is given there, not
fitted, and points are not weighted. The C_mid of its Table 1 lie on grids of different ranges, so the ranges are
arguments here, by default those of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from headrace.errors import ConfigError
from headrace.scaling.bounds import B_RANGE
from headrace.scaling.curve import Array, log_compute
from headrace.scaling.points import Points

CEILING_STEP = 0.005
NUM_MID = 100
_LOG_B = np.linspace(np.log(B_RANGE[0]), np.log(B_RANGE[1]), 80)
_POLISHED = 400  # cells whose B is fitted to the end
_NEWTON_STEPS = 30


@dataclass(frozen=True, slots=True)
class GridRanges:
    """Values to try: ``ceilings`` (K,) and ``mids`` (M,), ascending."""

    ceilings: Array
    mids: Array

    def __post_init__(self) -> None:
        for name, values in (("A", self.ceilings), ("C_mid", self.mids)):
            if len(values) < 2 or np.any(np.diff(values) <= 0) or values[0] <= 0:
                raise ConfigError(f"grid of {name}: at least two ascending values above 0 are needed")


def ranges(low: float, high: float, first_mid: float, last_mid: float, *, num_mid: int = NUM_MID) -> GridRanges:
    """Ceilings from ``low`` to ``high`` in steps of .005 and evenly spaced C_mid, ends included."""
    count = round((high - low) / CEILING_STEP) + 1
    return GridRanges(
        np.linspace(low, low + CEILING_STEP * (count - 1), max(count, 0)), np.linspace(first_mid, last_mid, num_mid)
    )


def default_ranges(points: Points) -> GridRanges:
    """From the data: ceilings from the median score up to 1, C_mid over the positive compute."""
    positive = points.compute[points.compute > 0]
    low = max(CEILING_STEP, np.floor(np.median(points.score) / CEILING_STEP) * CEILING_STEP)
    return ranges(min(float(low), 1 - CEILING_STEP), 1.0, float(positive.min()), float(positive.max()))


def grid_fit(points: Points, R0: float, grid: GridRanges) -> Array:  # noqa: N803
    """Theta (R0, A, ln C_mid, ln B) of the best cell, (4,).

    B enters through the sigmoid only and A is linear, so sums over the points are taken once per (C_mid, B) and serve
    every A. The best cells of that table get B by Gauss-Newton, to the end.
    """
    x, y = log_compute(points.compute), points.score - R0
    mids = np.log(grid.mids)
    share = expit(np.exp(_LOG_B)[None, :, None] * (x[None, None, :] - mids[:, None, None]))
    gain = (grid.ceilings - R0)[:, None, None]
    table = y @ y - 2 * gain * (share @ y)[None] + gain**2 * np.einsum("mbn,mbn->mb", share, share)[None]
    best_b = np.argmin(table, axis=2)
    lowest = np.take_along_axis(table, best_b[:, :, None], axis=2)[:, :, 0]
    cells = np.argsort(lowest, axis=None)[:_POLISHED]
    a, m = np.unravel_index(cells, lowest.shape)
    log_b, total = _fit_b(x, y, grid.ceilings[a] - R0, mids[m], _LOG_B[best_b[a, m]])
    best = int(np.argmin(total))
    return np.array([R0, grid.ceilings[a[best]], mids[m[best]], log_b[best]])


def _fit_b(x: Array, y: Array, gain: Array, mid: Array, log_b: Array) -> tuple[Array, Array]:
    """ln B of least squares in every cell, (K,), and the sums of squares; steps that do not help are halved."""
    step = np.full(len(gain), np.inf)
    total, best = np.full(len(gain), np.inf), log_b.copy()
    trial = log_b
    for _ in range(_NEWTON_STEPS):
        z = np.exp(trial)[:, None] * (x[None, :] - mid[:, None])
        s = expit(z)
        residual = y[None, :] - gain[:, None] * s
        slope = gain[:, None] * s * (1 - s) * z
        new = np.einsum("kn,kn->k", residual, residual)
        better = new < total
        best, total = np.where(better, trial, best), np.where(better, new, total)
        newton = np.einsum("kn,kn->k", slope, residual) / np.maximum(np.einsum("kn,kn->k", slope, slope), 1e-300)
        step = np.where(better, np.clip(newton, -0.5, 0.5), step / 2)
        if np.max(np.abs(step)) < 1e-10:
            break
        trial = np.clip(best + step, _LOG_B[0], _LOG_B[-1])
    return best, total
