"""Bounded weighted least squares of the sigmoid for many data sets at once: a projected Levenberg-Marquardt.

Rows of every array are independent problems (bootstrap draws, profile points, simulated runs); all of them take a step
together, and those that have converged leave. The parameters of a row are

    theta = (R0, U, ln C_mid, ln B),    R(C) = R0 + (U - R0) s(C) / s(C_ref),    s(C) = 1 / (1 + (C_mid / C)^B)

so that U is the value of the curve at the reference compute C_ref: with C_ref = infinity U is the ceiling A, with a
finite one it is the forecast there, which makes a forecast a parameter that can be profiled like the others.
A parameter is held by setting both of its bounds to the same value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from headrace.scaling.curve import Array

R0, U, LOG_MID, LOG_B = range(4)
MAX_ITERATIONS = 60
_SMALLEST_DAMPING, _LARGEST_DAMPING = 1e-9, 1e12


@dataclass(frozen=True, slots=True)
class Problems:
    """Data of D fits on N points. ``score`` and ``weight`` (1 / error^2) are (D, N); ``log_compute`` is (N,).

    ``lower`` and ``upper`` are bounds of theta, (D, 4); ``log_reference`` is ln C_ref, (D,), infinity for the ceiling.
    """

    log_compute: Array
    score: Array
    weight: Array
    lower: Array
    upper: Array
    log_reference: Array

    def take(self, rows: np.ndarray) -> Problems:
        """The problems of some rows only."""
        parts = (self.score[rows], self.weight[rows], self.lower[rows], self.upper[rows], self.log_reference[rows])
        return Problems(self.log_compute, *parts)


def solve(problems: Problems, start: Array, *, tolerance: float = 1e-10) -> tuple[Array, Array]:
    """Theta (D, 4) of least weighted squares from ``start`` (D, 4), and the sums of squares (D,).

    A row ends when a step can lower its sum by less than the share ``tolerance`` of it, or after 60 steps.
    """
    theta = np.clip(start, problems.lower, problems.upper)
    total, gradient, hessian = _normal_equations(problems, theta)
    scale = _variation(problems)
    damping = np.full(len(theta), 1e-3)
    rows = np.arange(len(theta))
    part = problems
    for _ in range(MAX_ITERATIONS):
        free = _free(part, theta[rows], gradient[rows])
        step, gain = _step(hessian[rows], gradient[rows], free, damping[rows])
        open_rows = (gain > tolerance * total[rows] + 1e-15 * scale[rows]) & (damping[rows] < _LARGEST_DAMPING)
        if not open_rows.all():
            rows, step = rows[open_rows], step[open_rows]
            if len(rows) == 0:
                break
            part = problems.take(rows)
        trial = np.clip(theta[rows] + step, part.lower, part.upper)
        new_total, new_gradient, new_hessian = _normal_equations(part, trial)
        better = new_total <= total[rows]
        won = rows[better]
        theta[won], total[won] = trial[better], new_total[better]
        gradient[won], hessian[won] = new_gradient[better], new_hessian[better]
        damping[rows] = np.where(better, np.maximum(damping[rows] * 0.1, _SMALLEST_DAMPING), damping[rows] * 8.0)
    return theta, total


def precision(problems: Problems, theta: Array) -> Array:
    """J' W J at theta, (D, 4, 4): the inverse covariance where errors are those of the weights."""
    return _normal_equations(problems, theta)[2]


def covariance(problems: Problems, theta: Array) -> Array:
    """Inverse of ``precision``, (D, 4, 4). Parameters at a bound are treated as free; a direction the data do not
    determine gets a very large variance.
    """
    hessian = precision(problems, theta)
    size = np.sqrt(np.maximum(np.einsum("dii->di", hessian), 1e-300))
    unit = hessian / (size[:, :, None] * size[:, None, :]) + 1e-12 * np.eye(4)
    return np.linalg.inv(unit) / (size[:, :, None] * size[:, None, :])


def predict(log_compute: Array, theta: Array, log_reference: Array) -> Array:
    """R at every point, (D, N)."""
    share, _, _ = _shares(log_compute, theta, log_reference)
    return np.asarray(theta[:, :1] + (theta[:, 1:2] - theta[:, :1]) * share)


def _shares(log_compute: Array, theta: Array, log_reference: Array) -> tuple[Array, Array, Array]:
    """s / s_ref and its derivatives by ln C_mid and ln B, each (D, N)."""
    mid, b = theta[:, LOG_MID, None], np.exp(theta[:, LOG_B, None])
    z = b * (log_compute[None, :] - mid)
    s = expit(z)
    finite = np.isfinite(log_reference)
    z_ref = b[:, 0] * (np.where(finite, log_reference, 0.0) - mid[:, 0])
    s_ref = np.where(finite, expit(z_ref), 1.0)[:, None]
    tail = np.where(finite, z_ref * (1.0 - s_ref[:, 0]), 0.0)[:, None]
    share = s / s_ref
    return share, -b * share * (s_ref - s), share * (z * (1.0 - s) - tail)


def jacobian(problems: Problems, theta: Array) -> Array:
    """dR/dtheta at every point, (D, 4, N)."""
    return _derivatives(problems, theta)[0]


def _derivatives(problems: Problems, theta: Array) -> tuple[Array, Array]:
    """dR/dtheta (D, 4, N) and the residuals score - R (D, N)."""
    share, by_mid, by_b = _shares(problems.log_compute, theta, problems.log_reference)
    gain = theta[:, U, None] - theta[:, R0, None]
    columns = np.empty((len(theta), 4, share.shape[1]))
    columns[:, R0] = 1.0 - share
    columns[:, U] = share
    np.multiply(gain, by_mid, out=columns[:, LOG_MID])
    np.multiply(gain, by_b, out=columns[:, LOG_B])
    return columns, problems.score - theta[:, R0, None] - gain * share


def _normal_equations(problems: Problems, theta: Array) -> tuple[Array, Array, Array]:
    """Weighted sum of squares (D,), J' W r (D, 4) with r = score - R, and J' W J (D, 4, 4)."""
    columns, residual = _derivatives(problems, theta)
    weighted = columns * problems.weight[:, None, :]
    total = np.einsum("dn,dn,dn->d", problems.weight, residual, residual)
    gradient = (weighted @ residual[:, :, None])[:, :, 0]
    return total, gradient, weighted @ columns.transpose(0, 2, 1)


def _free(problems: Problems, theta: Array, gradient: Array) -> Array:
    """1 where a parameter can move down the slope, 0 where a bound stops it; (D, 4)."""
    stuck = ((theta <= problems.lower) & (gradient <= 0)) | ((theta >= problems.upper) & (gradient >= 0))
    return np.where(stuck, 0.0, 1.0)


def _step(hessian: Array, gradient: Array, free: Array, damping: Array) -> tuple[Array, Array]:
    """The damped step of the free parameters (D, 4) and the fall of the sum of squares it promises (D,)."""
    masked = hessian * free[:, :, None] * free[:, None, :]
    diagonal = np.einsum("dii->di", masked)
    ridge = diagonal * damping[:, None] + np.where(diagonal > 0, 1e-14 * diagonal, 1.0)
    matrix = masked + ridge[:, :, None] * np.eye(4)
    pushed = gradient * free
    step = np.linalg.solve(matrix, pushed[:, :, None])[:, :, 0] * free
    return step, np.einsum("di,di->d", step, pushed)


def _variation(problems: Problems) -> Array:
    """Weighted squares about the mean, (D,): what 'small' is measured by where a curve fits exactly."""
    mean = np.sum(problems.weight * problems.score, axis=1) / np.sum(problems.weight, axis=1)
    return np.asarray(np.sum(problems.weight * (problems.score - mean[:, None]) ** 2, axis=1))
