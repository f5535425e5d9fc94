"""A seeded order of n rows as a pure function: no stored permutation, the same in every version of every library."""

from __future__ import annotations

from headrace.errors import HeadraceError

_MASK = (1 << 64) - 1
_ROUNDS = 6


def shuffled(index: int, size: int, key: int) -> int:
    """Row at place ``index`` of permutation number ``key`` of ``range(size)``. A bijection for each key.

    A Feistel network over the next even number of bits, walked until it lands inside ``range(size)`` (at most about
    four times on average).
    """
    if not 0 <= index < size:
        raise HeadraceError(f"place {index} is outside an order of {size} rows")
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    low = (1 << half) - 1
    value = index
    while True:
        left, right = value >> half, value & low
        for turn in range(_ROUNDS):
            left, right = right, left ^ (mix(right + (turn << 58) ^ key) & low)
        value = (left << half) | right
        if value < size:
            return value


def epoch_key(seed: int, epoch: int) -> int:
    """Key of one pass over the rows; different passes and seeds give unrelated orders."""
    return mix(mix(seed) ^ (epoch * 0x9E3779B97F4A7C15 & _MASK))


def mix(value: int) -> int:
    """64 well mixed bits (the finaliser of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
