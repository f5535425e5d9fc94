"""verl's losses as functions of padded log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config.actor import ActorConfig, PolicyLossConfig

from tests.peers.batch import HORIZON, Batch

# Headrace's loss weight -> verl's loss_agg_mode
AGGREGATION = {
    "token_mean": "token-mean",
    "sample_mean": "seq-mean-token-mean",
    "constant": "seq-mean-token-sum-norm",
}


def actor(*, policy_loss: dict[str, Any] | None = None, info: dict[str, Any] | None = None, **keys: Any) -> ActorConfig:
    """verl's actor section with what the losses read."""
    return ActorConfig(
        strategy="fsdp",
        rollout_n=4,
        ppo_micro_batch_size_per_gpu=4,
        policy_loss=PolicyLossConfig(**(policy_loss or {})),
        global_batch_info=info or {},
        **keys,
    )


def policy_loss(
    batch: Batch,
    name: str,
    rule: str = "token_mean",
    *,
    advantage: Tensor | None = None,
    correction: Tensor | None = None,
    info: dict[str, Any] | None = None,
    **keys: Any,
) -> Callable[[Tensor], Tensor]:
    """The registered loss ``name``; ``constant`` divides by HORIZON tokens a row. ``info`` extends verl's
    global_batch_info."""
    known = {"loss_scale_factor": HORIZON} if rule == "constant" else {}
    config = actor(info=known | (info or {}), **keys)

    def loss_of(logprob: Tensor) -> Tensor:
        loss, _ = get_policy_loss_fn(name)(
            old_log_prob=batch.old,
            log_prob=logprob,
            advantages=batch.advantage if advantage is None else advantage,
            response_mask=batch.mask.to(torch.float64),
            loss_agg_mode=AGGREGATION[rule],
            config=config,
            rollout_is_weights=correction,
        )
        return loss

    return loss_of
