"""Discounted sums over tokens, the one recursion of all token-level advantages. numpy, float64."""

from __future__ import annotations

from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.errors import RecordError

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]


def discounted(values: Array, decay: float, start: float = 0.0) -> Array:
    """y [L] with y_t = x_t + decay y_{t-1}, y_{-1} = ``start``.

    A loop over plain floats: about 50 ns a token, and exactly the rounding of the recursion as it is written down.
    """
    sums = accumulate(values.tolist(), lambda carry, x: x + decay * carry, initial=start)
    return np.fromiter(sums, np.float64, len(values) + 1)[1:]


def discounted_from_end(values: Array, decay: float, start: float = 0.0) -> Array:
    """y [L] with y_t = x_t + decay y_{t+1}, y_L = ``start``."""
    return discounted(values[::-1], decay, start)[::-1]


def discounted_each_from_end(values: Array, decay: Array) -> Array:
    """y [N] with y_t = x_t + decay_t y_{t+1}, y_N = 0: rollouts end to end, decay 0 at the last token of each."""
    carry, sums = 0.0, []
    for x, factor in zip(values[::-1].tolist(), decay[::-1].tolist(), strict=True):
        carry = x + factor * carry
        sums.append(carry)
    return np.asarray(sums, dtype=np.float64)[::-1]


def next_values(values: Array, end: float) -> Array:
    """V_{t+1} [L]: the values moved up by one token, ``end`` after the last."""
    return np.append(values[1:], end) if len(values) else values


def vector(values: npt.ArrayLike, name: str, like: Array | None = None) -> Array:
    """Float64 [L]. Raises ``RecordError`` for another rank, or another length than ``like``."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (like is not None and array.shape != like.shape):
        wanted = "[L]" if like is None else str(list(like.shape))
        raise RecordError(f"{name} is {list(array.shape)}, wanted {wanted}")
    return array


def runs(lengths: npt.ArrayLike, total: int) -> tuple[Counts, Counts]:
    """Lengths [B] and end places [B] (exclusive) of rollouts that lie end to end in ``total`` tokens.

    Raises ``RecordError`` for a negative length or lengths that do not sum to ``total``.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    if counts.ndim != 1 or (counts < 0).any() or counts.sum() != total:
        raise RecordError(f"lengths must be [B], none negative, and sum to {total} tokens; their sum is {counts.sum()}")
    return counts, counts.cumsum()
