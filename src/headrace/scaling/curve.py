"""The saturating sigmoid of held-out pass rate against compute, and its inverse.

    R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B)

R0 is the pass rate before training, A the ceiling, C_mid the compute at which half the gain is made, B how steep the
rise is ("efficiency"). Source: Khatri et al. 2025, "The Art of Scaling Reinforcement Learning Compute for LLMs"
(arXiv 2510.13786), equation 1. Compute is in any one unit; C_mid comes in the same unit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Array = NDArray[np.float64]

LOG_OF_ZERO = -1.0e4  # stands for log(0): the sigmoid is exactly 0 there for every B and C_mid in use


def sigmoid(compute: ArrayLike, A: ArrayLike, B: ArrayLike, C_mid: ArrayLike, R0: ArrayLike) -> Array:  # noqa: N803
    """R(C); all arguments broadcast. ``compute`` >= 0, in the unit of ``C_mid``; pass rates are shares of 1.

    >>> sigmoid([1500, 2542, 8000, 16000], A=0.61, B=1.92, C_mid=2542, R0=0.25).round(5).tolist()
    [0.34592, 0.43, 0.57413, 0.59977]
    """
    share = expit(np.asarray(B) * (log_compute(compute) - np.log(C_mid)))
    return np.asarray(np.asarray(R0) + (np.asarray(A) - R0) * share, dtype=np.float64)


def slope(compute: ArrayLike, A: ArrayLike, B: ArrayLike, C_mid: ArrayLike, R0: ArrayLike) -> Array:  # noqa: N803
    """dR/dC, pass rate per unit of compute; ``compute`` > 0. At C_mid it is (A - R0) B / (4 C_mid)."""
    share = expit(np.asarray(B) * (log_compute(compute) - np.log(C_mid)))
    return np.asarray((np.asarray(A) - R0) * share * (1 - share) * B / np.asarray(compute), dtype=np.float64)


def compute_to_reach(score: float, A: float, B: float, C_mid: float, R0: float) -> float:  # noqa: N803
    """The compute at which the curve passes ``score``: 0 at or below R0, infinity at or above A."""
    if score <= R0:
        return 0.0
    if score >= A:
        return float("inf")
    return float(C_mid * ((score - R0) / (A - score)) ** (1.0 / B))


def log_compute(compute: ArrayLike) -> Array:
    """log C, with a very negative number for C = 0."""
    values = np.asarray(compute, dtype=np.float64)
    return np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), LOG_OF_ZERO)
