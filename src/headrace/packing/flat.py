"""Rollouts end to end in flat arrays, and the prompts that those of a group have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.records import BoolArray, FloatArray, IntArray, Rollout

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """B rollouts of G groups, those of a group side by side, with N tokens in all."""

    token_ids: IntArray  # [N]
    trainable: BoolArray  # [N]
    behaviour_logprob: FloatArray  # [N]
    policy_version: IntArray  # [N]
    advantage: FloatArray  # [N]
    start: Int  # [B], of each rollout's first token
    length: Int  # [B]
    group: Int  # [B], from 0, never falling, without gaps

    @property
    def num_trainable(self) -> Int:
        """Trainable tokens [B] of each rollout."""
        return np.add.reduceat(self.trainable, self.start, dtype=np.int64)


def flatten(rollouts: Sequence[Rollout], group: Int) -> Flat:
    """``group`` [B]: the number of each rollout's group in the step, never falling. At least one rollout."""
    length = np.fromiter((r.length for r in rollouts), np.int64, len(rollouts))
    return Flat(
        token_ids=np.concatenate([r.token_ids for r in rollouts]),
        trainable=np.concatenate([r.trainable for r in rollouts]),
        behaviour_logprob=np.concatenate([r.behaviour_logprob for r in rollouts]),
        policy_version=np.concatenate([r.policy_version for r in rollouts]),
        advantage=np.concatenate([r.advantage for r in rollouts if r.advantage is not None]),
        start=length.cumsum() - length,
        length=length,
        group=np.cumsum(np.diff(group, prepend=group[0]) != 0),
    )


def shared_prompts(flat: Flat) -> Int:
    """Tokens [G] that all rollouts of a group begin with, none of them trainable; 0 for a group of one rollout.

    Every rollout has a trainable token.
    """
    first = np.flatnonzero(np.diff(flat.group, prepend=-1))  # rollout that opens each group
    trainable = np.flatnonzero(flat.trainable)
    before = trainable[np.searchsorted(trainable, flat.start)] - flat.start
    shared: Int = np.minimum.reduceat(before, first)
    shared[np.diff(first, append=len(flat.group)) == 1] = 0
    rollout, place = ragged(shared[flat.group])
    group = flat.group[rollout]
    differs = flat.token_ids[flat.start[rollout] + place] != flat.token_ids[flat.start[first[group]] + place]
    np.minimum.at(shared, group[differs], place[differs])
    return shared


def ragged(sizes: Int) -> tuple[Int, Int]:
    """For runs of these sizes end to end: the run that every entry is of, and its place in the run."""
    run = np.repeat(np.arange(len(sizes)), sizes)
    return run, np.arange(len(run)) - (sizes.cumsum() - sizes)[run]
