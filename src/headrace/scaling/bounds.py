"""The box a fit searches, taken from the data's own span."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace.scaling.curve import Array
from headrace.scaling.least_squares import LOG_B, LOG_MID, U
from headrace.scaling.points import Points

MID_FACTOR = 20.0  # C_mid may lie this far outside the data
B_RANGE = (0.1, 10.0)
_AT = 1e-6


def search_box(runs: Sequence[Points], *, R0: float | None = None) -> tuple[Array, Array]:  # noqa: N803
    """Lower and upper bounds of theta (4,): pass rates in 0..1, C_mid within the data's span x 20, B in .1..10.

    A given ``R0`` is held.
    """
    compute = np.concatenate([run.compute for run in runs])
    positive = compute[compute > 0]
    mid = math.log(positive.min() / MID_FACTOR), math.log(positive.max() * MID_FACTOR)
    b = math.log(B_RANGE[0]), math.log(B_RANGE[1])
    base = (0.0, 1.0) if R0 is None else (R0, R0)
    return np.array([base[0], 0.0, mid[0], b[0]]), np.array([base[1], 1.0, mid[1], b[1]])


def at_bounds(theta: Array, lower: Array, upper: Array) -> list[str]:
    """Which of A, B, C_mid lie at a bound of the box, in words. R0 may lie at 0: a model may start there."""
    found = []
    for name, index in (("A", U), ("B", LOG_B), ("C_mid", LOG_MID)):
        for bound in (lower[index], upper[index]):
            if abs(theta[index] - bound) < _AT:
                value = bound if index == U else math.exp(bound)
                found.append(f"{name} is at the bound {value:.6g} of the search")
    return found
