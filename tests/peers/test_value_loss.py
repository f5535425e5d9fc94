"""The critic's clipped regression against verl and polgrad.

Tried with verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

import pytest
from polgrad.losses import value_loss as polgrad_value_loss
from torch import Tensor
from verl.trainer.ppo.core_algos import compute_value_loss

from headrace.objectives.value_loss import value_loss
from tests.peers.batch import FULL, Batch, Result, assert_agree, make_batch, peer, weighted
from tests.peers.polgrad_side import AGGREGATION
from tests.peers.verl_side import AGGREGATION as VERL_AGGREGATION


def ours(batch: Batch, clip: float | None, rule: str) -> Result:
    """The batch's log-probabilities serve as values, ``old`` as old values, ``advantage`` as returns."""
    leaf = batch.flat(batch.logprob).clone().requires_grad_()
    loss = value_loss(leaf, batch.flat(batch.old), batch.flat(batch.advantage), clip=clip)
    if clip is not None:
        assert 0 < float(loss.stats["value_clip"].mean()) < 1
    return weighted(batch, loss.value, leaf, rule)


@pytest.mark.parametrize("rule", ["token_mean", "sample_mean"])
def test_verl(rule: str) -> None:
    batch = make_batch()

    def theirs(value: Tensor) -> Tensor:
        return compute_value_loss(
            value, batch.advantage, batch.old, batch.mask.double(), 0.3, loss_agg_mode=VERL_AGGREGATION[rule]
        )[0]

    assert_agree(ours(batch, 0.3, rule), peer(batch, theirs))


@pytest.mark.parametrize("clip", [0.3, None])
@pytest.mark.parametrize("rule", ["token_mean", "sample_mean"])
def test_polgrad(clip: float | None, rule: str) -> None:
    batch = make_batch(lengths=FULL)

    def theirs(value: Tensor) -> Tensor:
        return polgrad_value_loss(
            value, batch.old, batch.advantage, batch.mask, clip_eps=clip, aggregation=AGGREGATION[rule]
        ).loss

    assert_agree(ours(batch, clip, rule), peer(batch, theirs))
