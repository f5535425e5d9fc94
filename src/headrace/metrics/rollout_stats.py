"""Per-rollout figures of many rollouts at once: a few numpy calls a step instead of several a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.records import NO_VERSION, Rollout

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStats:
    """Arrays of length B, one entry a rollout, over the tokens the policy wrote.

    ``oldest`` and ``newest`` are versions, -1 for a rollout without such tokens; ``advantage`` is the mean, NaN without
    such tokens or without an advantage.
    """

    num_trainable: Ints
    oldest: Ints
    newest: Ints
    advantage: npt.NDArray[np.float64]

    @property
    def mixed(self) -> npt.NDArray[np.bool_]:
        """[B], True where more than one version wrote."""
        return self.oldest != self.newest


def rollout_stats(rollouts: Sequence[Rollout]) -> RolloutStats:
    """The figures of ``rollouts``, in their order."""
    n = len(rollouts)
    oldest, newest = np.full(n, NO_VERSION, np.int64), np.full(n, NO_VERSION, np.int64)
    if n == 0:
        none = np.zeros(0, np.int64)
        return RolloutStats(num_trainable=none, oldest=oldest, newest=newest, advantage=np.zeros(0))
    mask = np.concatenate([r.trainable for r in rollouts])
    owner = np.repeat(np.arange(n), [len(r.trainable) for r in rollouts])[mask]
    versions = np.concatenate([r.policy_version for r in rollouts])[mask]
    counts = np.bincount(owner, minlength=n)
    some = counts > 0
    if some.any():
        starts = (np.cumsum(counts) - counts)[some]
        oldest[some] = np.minimum.reduceat(versions, starts)
        newest[some] = np.maximum.reduceat(versions, starts)
    return RolloutStats(
        num_trainable=counts, oldest=oldest, newest=newest, advantage=_advantage(rollouts, mask, owner, counts)
    )


def _advantage(
    rollouts: Sequence[Rollout], mask: npt.NDArray[np.bool_], owner: Ints, counts: Ints
) -> npt.NDArray[np.float64]:
    if all(r.advantage is None for r in rollouts):
        return np.full(len(rollouts), np.nan)
    values = np.concatenate(
        [np.full(len(r.trainable), np.nan, np.float32) if r.advantage is None else r.advantage for r in rollouts]
    )
    total = np.bincount(owner, weights=values[mask], minlength=len(rollouts))
    return np.divide(total, counts, out=np.full(len(rollouts), np.nan), where=counts > 0)
