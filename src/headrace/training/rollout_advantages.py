"""The advantages the trainer made, by rollout, for whoever keeps a record of rollouts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from headrace.config.algorithm import AlgorithmSection, GroupRelative
from headrace.records import FloatArray
from headrace.training.prepare import Prepared
from headrace.training.ranks import Ranks


def makes_advantages(algorithm: AlgorithmSection) -> bool:
    """Whether advantages read a model, so that those of the batch do not stand."""
    kl = algorithm.kl
    return not isinstance(algorithm.advantage, GroupRelative) or (kl is not None and kl.into == "reward")


def mean_advantages(prepared: Iterable[Prepared], num_rollouts: int, ranks: Ranks) -> FloatArray:
    """Mean over the trained tokens of each of B rollouts, all ranks' tokens together; NaN without such tokens.

    Every rank must call it. ``prepared`` are this rank's micro-batches, each once.
    """
    sums = torch.zeros(2, num_rollouts, dtype=torch.float64)
    for one in prepared:
        segment, advantage = one.segment.cpu(), one.advantage.double().cpu()
        sums[0].index_add_(0, segment, advantage)
        sums[1].index_add_(0, segment, torch.ones_like(advantage))
    ranks.sum_tensors([sums])
    total, count = sums.numpy()
    return np.divide(total, count, out=np.full(num_rollouts, np.nan), where=count > 0).astype(np.float32)
