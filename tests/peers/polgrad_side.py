"""polgrad's losses as functions of padded log-probabilities. polgrad refuses rows without tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polgrad.aggregate import Aggregation
from polgrad.losses import ClipConfig, PolicyLossConfig, RatioKind, SurrogateKind
from polgrad.losses import policy_loss as polgrad_loss
from torch import Tensor

from tests.peers.batch import HORIZON, Batch

# Headrace's loss weight -> polgrad's aggregation
AGGREGATION = {
    "token_mean": Aggregation.TOKEN_MEAN,
    "sample_mean": Aggregation.SEQ_MEAN_TOKEN_MEAN,
    "constant": Aggregation.TOKEN_SUM_NORM,
}


def policy_loss(
    batch: Batch,
    surrogate: SurrogateKind,
    rule: str = "token_mean",
    *,
    clip: ClipConfig | None = None,
    ratio: RatioKind = RatioKind.TOKEN,
    advantage: Tensor | None = None,
    **keys: Any,
) -> Callable[[Tensor], Tensor]:
    """``keys``: ``is_correction`` and ``kl`` of PolicyLossConfig."""
    config = PolicyLossConfig(
        ratio=ratio, surrogate=surrogate, clip=clip, aggregation=AGGREGATION[rule], norm_len=HORIZON, **keys
    )

    def loss_of(logprob: Tensor) -> Tensor:
        return polgrad_loss(
            config,
            logprobs=logprob,
            old_logprobs=batch.old,
            advantages=batch.advantage if advantage is None else advantage,
            response_mask=batch.mask,
            ref_logprobs=batch.reference,
            rollout_logprobs=batch.behaviour,
        ).loss

    return loss_of
