"""Whether a curve wanders: residuals of neighbouring evaluations that err alike.

A policy drifts a little up and down on its way, and evaluations close to each other see the same drift. Their errors
then average out more slowly than independent ones do, and intervals that do not know it are too narrow. The remedy is
that of long-run variances (Newey and West 1987: Bartlett-weighted products of neighbouring residuals), freed of what
the fit itself does to residuals, which is a lot: a flexible curve follows part of the drift.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.scaling.curve import Array

_CERTAIN = 1.645  # standard deviations (5 %, one side) below which white noise is taken for what it is
_LARGEST = 16.0


def variance_inflation(residuals: Sequence[Array], jacobians: Sequence[Array]) -> float:
    """By how much errors alike of neighbours inflate the variance of the estimates, 1 (no sign of it) to 16.

    Per run: ``residuals`` (N,) in order of compute and the ``jacobians`` (4, N) of the fit, in units of the points'
    errors. With Q (N, p) an orthonormal basis of the jacobian, H = Q Q' and M = I - H, the statistic r' W r of white
    noise has mean tr(W M) and variance 2 tr(W M W M). What exceeds that is put down to a drift of covariance c K
    between different points, K falling off exponentially within the reach of W: c = excess / tr(W M K M), and the
    estimates' variance grows by c tr(H K) / p on average.
    """
    excess = white = drift = fitted = free = 0.0
    for residual, jacobian in zip(residuals, jacobians):
        w, k = _kernels(len(residual))
        q = _basis(jacobian)
        wq, kq = _apply(w, q), _apply(k, q)
        excess += float(residual @ _apply(w, residual[:, None])[:, 0]) + float(np.sum(q * wq))  # the diagonal of W is 0
        white += 2 * _trace(w, w, q, wq, wq, len(residual))
        drift += _trace(w, k, q, wq, kq, len(residual))
        fitted += float(np.sum(q * kq))
        free += q.shape[1]
    if white <= 0 or drift <= 0 or excess < _CERTAIN * np.sqrt(white):
        return 1.0
    return float(min(1.0 + excess / drift * fitted / free, _LARGEST))


def _kernels(count: int) -> tuple[Array, Array]:
    """W and K by distance 0, 1, 2, ..., both 0 at distance 0.

    W is half of 1 - d / (m + 1), so that r' W r sums every pair once; K is exp(-2 d / m); m = 1.5 sqrt(N / 2), 7 or 8
    evaluations of 50.
    """
    reach = max(2, round(1.5 * np.sqrt(count / 2)))
    w = 0.5 * (1 - np.arange(min(reach + 1, count)) / (reach + 1))
    k = np.exp(-2.0 * np.arange(min(5 * reach, count)) / reach)
    w[0] = k[0] = 0.0
    return w, k


def _apply(kernel: Array, columns: Array) -> Array:
    """The symmetric Toeplitz matrix with first column ``kernel`` times ``columns`` (N, p)."""
    out = kernel[0] * columns
    for distance, value in enumerate(kernel[1:], 1):
        out[distance:] += value * columns[:-distance]
        out[:-distance] += value * columns[distance:]
    return out


def _trace(a: Array, b: Array, q: Array, aq: Array, bq: Array, count: int) -> float:
    """tr(A M B M) of symmetric Toeplitz A and B with zero diagonals, from A Q and B Q."""
    shared = min(len(a), len(b))
    whole = 2 * float(np.sum(a[1:shared] * b[1:shared] * (count - np.arange(1, shared))))
    return whole - 2 * float(np.sum(aq * bq)) + float(np.sum((q.T @ aq) * (q.T @ bq).T))


def _basis(jacobian: Array) -> Array:
    """Orthonormal columns (N, p) that span the rows of ``jacobian``."""
    _, values, rows = np.linalg.svd(jacobian, full_matrices=False)
    return np.asarray(rows[values > 1e-10 * values.max(initial=1e-300)].T)
