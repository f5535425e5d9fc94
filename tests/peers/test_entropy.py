"""Log-probabilities and entropy from hidden states, the entropy bonus and its steering, against verl and TRL.

Tried with trl 1.16.0, verl 0.9.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from trl.trainer.utils import entropy_from_logits as trl_entropy
from verl.trainer.ppo.core_algos import compute_entropy_loss
from verl.utils.torch_functional import entropy_from_logits, logprobs_from_logits_v2

from headrace.models.lm_head import head_logprobs
from headrace.objectives.entropy import adapted_coef, applied_coef, entropy_bonus
from headrace.objectives.inputs import LossInputs, TokenLoss
from headrace.objectives.ppo_clip import ppo_clip
from tests.peers import trl_side, verl_side
from tests.peers.batch import FULL, Batch, assert_agree, assert_close, headrace, make_batch, peer, weighted

TEMPERATURE = 0.7


def head(tokens: int = 40, hidden: int = 8, vocabulary: int = 300) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(tokens, hidden, generator=draw, dtype=torch.float64)
    weight = torch.randn(vocabulary, hidden, generator=draw, dtype=torch.float64)
    return states, weight, torch.randint(vocabulary, (tokens,), generator=draw)


def test_logprob_and_entropy_of_a_head() -> None:
    """The peers get whole logits, already divided by the temperature; ours never holds them."""
    states, weight, target = head()
    ours = head_logprobs(states, weight, target, temperature=TEMPERATURE)
    logits = states @ weight.T / TEMPERATURE
    assert_close(ours.logprob, logprobs_from_logits_v2(logits, target))
    assert_close(ours.entropy, entropy_from_logits(logits))
    assert_close(ours.entropy, trl_entropy(logits))


def test_their_gradients() -> None:
    states, weight, target = head()
    pull = torch.linspace(-1, 1, len(target), dtype=torch.float64)
    grads = []
    for mine in (True, False):
        leaves = states.clone().requires_grad_(), weight.clone().requires_grad_()
        if mine:
            scores = head_logprobs(*leaves, target, temperature=TEMPERATURE, entropy_grad=True)
            logprob, entropy = scores.logprob, scores.entropy
        else:
            logits = leaves[0] @ leaves[1].T / TEMPERATURE
            logprob, entropy = logprobs_from_logits_v2(logits, target), entropy_from_logits(logits)
        grads.append(torch.autograd.grad((pull * logprob + pull.flip(0) * entropy).sum(), leaves))
    for ours, theirs in zip(*grads):
        assert_close(ours, theirs)


@pytest.mark.parametrize("rule", ["token_mean", "sample_mean"])
def test_the_bonus_is_verls(rule: str) -> None:
    """verl subtracts coef x the entropy averaged as the loss is. A token's log-probability stands for its logits."""
    batch = make_batch()
    draw = torch.Generator().manual_seed(5)
    logits = torch.randn(*batch.mask.shape, 20, generator=draw, dtype=torch.float64)

    def theirs(shift: Tensor) -> Tensor:
        moved = logits * shift[..., None]
        return -0.01 * compute_entropy_loss(moved, batch.mask.double(), verl_side.AGGREGATION[rule])

    leaf = batch.flat(batch.logprob).clone().requires_grad_()
    entropy = trl_entropy(batch.flat(logits) * leaf[:, None])
    x = LossInputs(
        logprob=leaf,
        anchor_logprob=batch.flat(batch.old),
        advantage=batch.flat(batch.advantage),
        segment=batch.segment,
        entropy=entropy,
    )
    assert_agree(weighted(batch, entropy_bonus(x, coef=0.01).value, leaf, rule), peer(batch, theirs))


def surrogate_with_bonus(x: LossInputs, *, coef: float) -> TokenLoss:
    clipped = ppo_clip(x, clip_low=0.2, clip_high=0.2)
    return TokenLoss(value=clipped.value + entropy_bonus(x, coef=coef).value, stats={})


def trl_with_bonus(batch: Batch, entropy: Tensor, loss_type: str, **keys: object):
    keys = {"_entropy_bonus_enabled": True, "entropy_coef": 0.05} | keys
    trainer = trl_side.stand_in(loss_type=loss_type, **keys)
    return trainer, trl_side.policy_loss(batch, trainer, entropy=entropy)


def test_the_bonus_is_trls_under_a_token_mean() -> None:
    """TRL's bonus is a mean over tokens whatever the loss is averaged by; ours has the loss weight of its tokens."""
    batch = make_batch(lengths=FULL)
    entropy = batch.behaviour.abs() + 0.1
    _, loss_of = trl_with_bonus(batch, entropy, "dapo")
    assert_agree(headrace(batch, partial(surrogate_with_bonus, coef=0.05), entropy=entropy), peer(batch, loss_of))
    _, loss_of = trl_with_bonus(batch, entropy, "grpo")
    theirs = peer(batch, loss_of)
    ours = headrace(batch, partial(surrogate_with_bonus, coef=0.05), "sample_mean", entropy=entropy)
    filled = torch.where(batch.mask, entropy, 0.0)
    by_tokens, by_rows = filled.sum() / batch.mask.sum(), (filled.sum(1) / batch.lengths).mean()
    assert abs(by_tokens - by_rows) > 1e-2
    assert ours.loss - theirs.loss == pytest.approx(float(0.05 * (by_tokens - by_rows)), rel=1e-6)


@pytest.mark.parametrize("target", [0.2, 3.0])
@pytest.mark.parametrize("coef", [0.002, 0.05, 0.998])
def test_steering_is_trls(target: float, coef: float) -> None:
    """Both move by delta towards the target and keep within [0, max]; the next update applies it below the target."""
    batch = make_batch(lengths=FULL)
    entropy = batch.behaviour.abs() + 0.1
    mean = float(batch.flat(entropy).mean())
    trainer, loss_of = trl_with_bonus(
        batch,
        entropy,
        "dapo",
        entropy_coef=coef,
        use_adaptive_entropy=True,
        args_entropy_target=target,
        args_entropy_coef_delta=0.005,
        args_entropy_coef_max=1.0,
        args_entropy_coef_min=0.0,
        _last_world_entropy=mean,
        _entropy_window_stats=None,
    )
    applied = applied_coef(coef, mean, target=target)
    assert (applied == 0) == (mean > target)
    ours = headrace(batch, partial(surrogate_with_bonus, coef=applied), entropy=entropy)
    assert_agree(ours, peer(batch, loss_of))
    moved = adapted_coef(coef, mean, target=target, delta=0.005, coef_max=1.0)
    assert trainer.entropy_coef == pytest.approx(moved, rel=1e-12)
    assert moved != coef
