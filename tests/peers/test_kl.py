"""KL estimators and penalties against verl, polgrad and TRL.

Tried with trl 1.16.0, verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from polgrad.kl import KLEstimator, KLLossConfig, kl_in_reward
from polgrad.losses import ClipConfig, SurrogateKind
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss, compute_rewards
from verl.trainer.ppo.core_algos import kl_penalty as verl_kl

from headrace.advantages.token_rewards import batched_token_rewards
from headrace.objectives.inputs import LossInputs, TokenLoss
from headrace.objectives.kl import kl_estimate, kl_penalty
from headrace.objectives.ppo_clip import ppo_clip
from tests.peers import polgrad_side, trl_side, verl_side
from tests.peers.batch import FULL, Batch, assert_agree, assert_close, headrace, make_batch, peer

ESTIMATORS = ("k1", "k2", "k3")
CLIP = {"clip_low": 0.2, "clip_high": 0.28}


def verl_penalty(batch: Batch, estimator: str, rule: str = "token_mean"):
    def loss_of(logprob: Tensor) -> Tensor:
        estimate = verl_kl(logprob, batch.reference, estimator)
        return agg_loss(estimate, batch.mask.double(), verl_side.AGGREGATION[rule])

    return loss_of


def with_penalty(x: LossInputs, **penalty: object) -> TokenLoss:
    return TokenLoss(value=ppo_clip(x, **CLIP).value + kl_penalty(x, **penalty).value, stats={})


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rule", ["token_mean", "sample_mean"])
def test_verls_kl_loss(estimator: str, rule: str) -> None:
    batch = make_batch()
    ours = headrace(batch, partial(kl_penalty, estimator=estimator, coef=1.0), rule)
    assert_agree(ours, peer(batch, verl_penalty(batch, estimator, rule)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_polgrads_loss_with_a_penalty(estimator: str) -> None:
    batch = make_batch(lengths=FULL)
    theirs = polgrad_side.policy_loss(
        batch,
        SurrogateKind.PG_CLIP,
        "sample_mean",
        clip=ClipConfig(eps_low=0.2, eps_high=0.28),
        kl=KLLossConfig(kind=KLEstimator(estimator), coef=0.3),
    )
    ours = headrace(batch, partial(with_penalty, estimator=estimator, coef=0.3), "sample_mean")
    assert_agree(ours, peer(batch, theirs))


@pytest.mark.parametrize("importance", [False, True])
def test_trls_penalty(importance: bool) -> None:
    """``use_bias_correction_kl`` multiplies k3 by the ratio, gradient included: our ``importance``."""
    batch = make_batch(lengths=FULL)
    trainer = trl_side.stand_in(
        beta=0.3, args_use_bias_correction_kl=importance, epsilon_low=0.2, epsilon_high=0.28, loss_type="grpo"
    )
    ours = headrace(batch, partial(with_penalty, estimator="k3", coef=0.3, importance=importance), "sample_mean")
    assert_agree(ours, peer(batch, trl_side.policy_loss(batch, trainer)))


def test_verl_cuts_k3_at_10_and_its_gradient_with_it() -> None:
    """A token far from the reference costs at most 10 in verl and is then free to go further; ours keeps pulling."""
    batch = make_batch()
    batch.reference[0, 0] = batch.logprob[0, 0] + 4
    far = float(torch.tensor(4.0).double().exp()) - 5
    assert far > 10
    tokens = int(batch.mask.sum())
    ours = headrace(batch, partial(kl_penalty, estimator="k3", coef=1.0))
    theirs = peer(batch, verl_penalty(batch, "k3"))
    assert (ours.loss - theirs.loss) * tokens == pytest.approx(far - 10, rel=1e-6)
    assert theirs.grad[0, 0] == 0
    assert float(ours.grad[0, 0]) * tokens == pytest.approx(1 - float(torch.tensor(4.0).double().exp()), rel=1e-9)


def test_verls_straight_through_form_is_k2_as_a_gradient() -> None:
    """verl's "k3+" has the value of k3 and the gradient of k2. We have no such name: ``estimator: k2`` is that loss."""
    batch = make_batch()
    theirs = peer(batch, verl_penalty(batch, "k3+"))
    ours = headrace(batch, partial(kl_penalty, estimator="k2", coef=1.0))
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-12)
    assert abs(ours.loss - theirs.loss) > 1e-2


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates_token_by_token(estimator: str) -> None:
    batch = make_batch()
    ours = kl_estimate(batch.flat(batch.logprob), batch.flat(batch.reference), estimator)
    assert_close(ours, batch.flat(verl_kl(batch.logprob, batch.reference, estimator)))


def test_penalty_in_the_reward() -> None:
    """r_t - coef k1(log pi_old, log pi_ref), the score on the last token, as verl and polgrad place it."""
    batch = make_batch(lengths=FULL, gaps=False)
    score = torch.linspace(-1, 1, len(FULL), dtype=torch.float64)
    tokens = torch.zeros_like(batch.old)
    tokens[torch.arange(len(FULL)), batch.lengths - 1] = score
    k1 = kl_estimate(batch.flat(batch.old), batch.flat(batch.reference), "k1")
    ours = batched_token_rewards(score.numpy(), np.array(FULL), k1.numpy(), 0.2)
    assert_close(ours, batch.flat(compute_rewards(tokens, batch.old, batch.reference, 0.2)))
    theirs = kl_in_reward(tokens, batch.old, batch.reference, KLEstimator.K1, 0.2, response_mask=batch.mask)
    assert_close(ours, batch.flat(theirs))
