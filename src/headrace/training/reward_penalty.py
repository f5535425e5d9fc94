"""Critic-free advantages whose rewards lost a KL penalty, as in RLOO (arXiv 2402.14740 section 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from headrace.advantages.group_relative import group_relative
from headrace.config.algorithm import GroupRelative
from headrace.records import MicroBatch, PackedBatch
from headrace.training.ranks import Ranks
from headrace.training.token_advantages import TokenTargets

Array = npt.NDArray[np.float64]


def penalised_advantages(
    batch: PackedBatch,
    micros: Sequence[MicroBatch],
    kl: Mapping[int, Array],
    coef: float,
    part: GroupRelative,
    tolerance: float,
    ranks: Ranks,
) -> dict[int, TokenTargets]:
    """Advantages of rewards minus ``coef`` times the summed ``kl`` of each rollout, by identity of the micro-batch.

    A group of equal verdicts still learns from the penalty, so ``tolerance`` refers to the penalised rewards. Rollouts
    that do not train have no penalty and are left out, as they are from the batch's own statistics.
    """
    penalty = np.zeros(len(batch.rewards))
    trains = np.zeros(len(batch.rewards))
    for micro in micros:
        segment = micro.segment[micro.trainable]
        np.add.at(penalty, segment, kl[id(micro)])
        trains[segment] = 1.0
    sums = [torch.from_numpy(penalty), torch.from_numpy(trains)]
    ranks.sum_tensors(sums)
    rewards = np.where(trains > 0, batch.rewards.astype(np.float64) - coef * penalty, np.nan)
    values = group_relative(
        rewards,
        batch.group_index,
        mean=part.mean,
        scale=part.scale,
        group_ddof=part.ddof,
        eps=part.eps,
        tolerance=tolerance,
    )
    found = {}
    for micro in micros:
        advantage = values[micro.segment[micro.trainable]]
        found[id(micro)] = TokenTargets(advantage=advantage, returns=advantage)
    return found
