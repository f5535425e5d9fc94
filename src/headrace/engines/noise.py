"""Counter-based sampling noise: one uniform number a token, a pure function of (seed, position)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BITS = 50  # so that (k + 0.5) / 2**50 is exact in float64 and stays clear of 0 and 1
_SCALE = 2.0**-_BITS


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014): every input bit moves every output bit."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def uniform(seed: npt.NDArray[np.int64], position: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Uniform numbers in the open interval (0, 1), shape [n], for n pairs of seed and absolute position.

    The seed is mixed before the position is added: neighbouring seeds then give unrelated streams instead of one
    stream shifted by a token.
    """
    stream = _mix(seed.astype(np.uint64) + _GOLDEN)  # arrays wrap around without a warning
    bits = _mix(stream + (position.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    return ((bits >> np.uint64(64 - _BITS)).astype(np.float64) + 0.5) * _SCALE
