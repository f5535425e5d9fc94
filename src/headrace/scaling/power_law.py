"""The power law R(C) = A - D / C^p, fitted for comparison only.

A power law has no bend at low compute: it is the sigmoid far above C_mid, and nothing else. On the rising part it turns
the rise into a ceiling that is too high, typically 1, so a fit to half a run promises too much (arXiv 2510.13786,
appendix A.5: the same data give A = 1.0 or .74 depending on where the window begins; the sigmoid .645 both times).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headrace.scaling.curve import Array
from headrace.scaling.points import Points

WARNING = "a power law has no bend at low compute; fitted to the rising part it puts the ceiling too high"
_EXPONENTS = np.geomspace(0.01, 5.0, 500)


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A - D (C_scale / C)^p with ``D`` in pass rate at ``C_scale``; all of shape (D,) or plain numbers."""

    A: Array
    D: Array
    p: Array
    C_scale: float

    def at(self, compute: float) -> Array:
        """The pass rate it gives at ``compute`` > 0."""
        return np.asarray(self.A - self.D * (self.C_scale / compute) ** self.p)


def fit_power_law(compute: ArrayLike, score: ArrayLike, weight: ArrayLike) -> PowerLaw:
    """Weighted least squares with A <= 1 and D >= 0 for D data sets at once.

    ``compute`` (N,), points at C = 0 are left out (the law is not finite there); ``score`` and ``weight`` (D, N). For
    every p of a fine grid (500 values, .01 to 5) the law is linear in A and D.
    """
    c = np.asarray(compute, dtype=np.float64)
    y, w = (np.atleast_2d(np.asarray(v, dtype=np.float64))[:, c > 0] for v in (score, weight))
    c = c[c > 0]
    scale = float(np.exp(np.mean(np.log(c))))
    basis = (scale / c)[None, :] ** _EXPONENTS[:, None]
    ceiling, drop, total = _regress(basis, y, w)
    best = np.argmin(total, axis=1)
    rows = np.arange(len(y))
    return PowerLaw(ceiling[rows, best], drop[rows, best], _EXPONENTS[best], scale)


def power_law_of(points: Points, error: Array) -> PowerLaw:
    """The law fitted to one run's points with their errors (N,)."""
    return fit_power_law(points.compute, points.score, 1.0 / error**2)


def _regress(basis: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """A, D and the sum of squares up to a constant, each (data sets, exponents)."""
    sum_w, sum_y = w.sum(axis=1)[:, None], (w * y).sum(axis=1)[:, None]
    sum_b, sum_bb, sum_by = w @ basis.T, w @ (basis**2).T, (w * y) @ basis.T
    spread = np.maximum(sum_w * sum_bb - sum_b**2, 1e-12 * sum_w**2)
    drop = np.maximum((sum_b * sum_y - sum_w * sum_by) / spread, 0.0)
    ceiling = np.minimum((sum_y + drop * sum_b) / sum_w, 1.0)
    drop = np.maximum((ceiling * sum_b - sum_by) / sum_bb, 0.0)
    total = ceiling**2 * sum_w + drop**2 * sum_bb - 2 * ceiling * drop * sum_b - 2 * ceiling * sum_y + 2 * drop * sum_by
    return ceiling, drop, total
