"""Uniform noise for every token of an update, a function of names alone: no split over rows or ranks changes a pick."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def token_noise(
    seed: int, update: int, rollout_seeds: npt.NDArray[np.int64], positions: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]:
    """Noise [N] in [0, 1) from (run's seed, number of the update, seed of the token's rollout, its place in it)."""
    state = _mixed(np.full(len(positions), seed, dtype=np.uint64))
    for words in (np.full(len(positions), update, dtype=np.uint64), rollout_seeds, positions):
        state = _mixed(state ^ np.asarray(words).astype(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(words: Words) -> Words:
    """The finaliser of splitmix64: every bit of a word reaches every bit of the result."""
    with np.errstate(over="ignore"):
        z = words + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = z ^ (z >> np.uint64(31))
    return mixed
