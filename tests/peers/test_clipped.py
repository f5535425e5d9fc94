"""PPO's clipped surrogate against TRL, verl and polgrad, under every loss weight they have.

Tried with trl 1.16.0, verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from polgrad.losses import ClipConfig, SurrogateKind

from headrace.objectives.ppo_clip import ppo_clip
from tests.peers import polgrad_side, trl_side, verl_side
from tests.peers.batch import FULL, Batch, Result, assert_agree, headrace, make_batch, peer

RULES = ("token_mean", "sample_mean", "constant")
CLIP = {"clip_low": 0.2, "clip_high": 0.28}

plain = partial(ppo_clip, **CLIP)
dual = partial(ppo_clip, **CLIP, dual_clip=3.0)


def wide(**keys: object) -> Batch:
    """Every branch of the clip is met: ratios from under .3 to over 3 on both signs of the advantage."""
    batch = make_batch(spread=1.0, **keys)
    r, a = batch.flat((batch.logprob - batch.old).exp()), batch.flat(batch.advantage)
    for side in (a > 0, a < 0):
        assert (side & (r < 0.8)).any()
        assert (side & (r > 3)).any()
        assert (side & (r > 0.8) & (r < 1.28)).any()
    return batch


def verl(batch: Batch, rule: str, **keys: object) -> Result:
    return peer(batch, verl_side.policy_loss(batch, "vanilla", rule, clip_ratio_low=0.2, clip_ratio_high=0.28, **keys))


def trl(batch: Batch, rule: str, **keys: object) -> Result:
    trainer = trl_side.stand_in(
        epsilon_low=0.2, epsilon_high=0.28, loss_type=trl_side.LOSS_TYPE[rule], args_delta=3.0, **keys
    )
    return peer(batch, trl_side.policy_loss(batch, trainer))


@pytest.mark.parametrize("rule", RULES)
def test_verl_with_gaps_and_a_row_without_tokens(rule: str) -> None:
    batch = wide()
    assert_agree(headrace(batch, dual, rule), verl(batch, rule))


@pytest.mark.parametrize("rule", RULES)
def test_trl(rule: str) -> None:
    """TRL's ``delta`` cuts the ratio for both signs of A; above 1 + clip_high it only acts for A < 0: dual clip."""
    batch = wide(lengths=FULL)
    assert_agree(headrace(batch, dual, rule), trl(batch, rule))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("kernel", "cap"), [(plain, None), (dual, 3.0)])
def test_polgrad(rule: str, kernel: Callable, cap: float | None) -> None:
    batch = wide(lengths=FULL)
    clip = ClipConfig(eps_low=0.2, eps_high=0.28, ratio_cap=cap)
    theirs = peer(batch, polgrad_side.policy_loss(batch, SurrogateKind.PG_CLIP, rule, clip=clip))
    assert_agree(headrace(batch, kernel, rule), theirs)


@pytest.mark.parametrize(("rule", "inner"), [("prompt_mean", "token_mean"), ("prompt_sample_mean", "sample_mean")])
def test_prompt_weights_are_verls_weights_prompt_by_prompt(rule: str, inner: str) -> None:
    """Neither verl nor TRL averages over prompts; their loss of one prompt at a time, averaged, is the same thing."""
    batch = wide()
    prompts = batch.group.unique()

    def mean_over_prompts(logprob: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for prompt in prompts:
            mine = batch.group == prompt
            part = batch.rows(mine)
            loss_of = verl_side.policy_loss(part, "vanilla", inner, clip_ratio_low=0.2, clip_ratio_high=0.28)
            total = total + loss_of(logprob[mine]) / len(prompts)
        return total

    assert_agree(headrace(batch, dual, rule), peer(batch, mean_over_prompts))


def test_correction_weights_multiply_the_clipped_loss() -> None:
    batch = wide()
    weight = (batch.old - batch.behaviour).exp().clamp(max=2.0)
    ours = headrace(batch, dual, correction_weight=weight)
    assert_agree(ours, verl(batch, "token_mean", correction=weight))
    trainer = trl_side.stand_in(epsilon_low=0.2, epsilon_high=0.28, args_delta=3.0)
    assert_agree(ours, peer(batch, trl_side.policy_loss(batch, trainer, correction=weight)))


def test_the_log_ratio_is_clamped_at_20_as_in_verl() -> None:
    batch = make_batch(lengths=FULL)
    batch.old[0, 0] = batch.logprob[0, 0] - 25
    batch.advantage[0, 0] = -2.0
    ours = headrace(batch, plain)
    assert ours.grad[0, 0] == 0
    # verl's dual clip at 1e12 is never reached: what is left is its clamp.
    assert_agree(ours, verl(batch, "token_mean", clip_ratio_c=1e12))
    # TRL and polgrad take exp(25) and its gradient.
    clip = ClipConfig(eps_low=0.2, eps_high=0.28)
    for unbounded in (
        trl_side.policy_loss(batch, trl_side.stand_in(epsilon_low=0.2, epsilon_high=0.28)),
        polgrad_side.policy_loss(batch, SurrogateKind.PG_CLIP, clip=clip),
    ):
        steep = float(peer(batch, unbounded).grad[0, 0]) * int(batch.mask.sum())
        assert steep == pytest.approx(2 * float(torch.tensor(25.0).double().exp()), rel=1e-9)


def test_verl_has_dual_clip_always_on() -> None:
    """Without ``dual_clip`` ours differs exactly by the tokens with A < 0 and r > 3."""
    batch = wide()
    ours, theirs = headrace(batch, plain), verl(batch, "token_mean")
    r, a = (batch.logprob - batch.old).exp(), batch.advantage
    over = batch.mask & (a < 0) & (r > 3)
    gap = (-a * (r - 3))[over].sum() / batch.mask.sum()
    assert ours.loss - theirs.loss == pytest.approx(float(gap), rel=1e-9)
    assert (theirs.grad[over] == 0).all()
    assert (ours.grad[over] != 0).all()


def test_trl_counts_rows_without_tokens_in_sample_and_constant_means() -> None:
    """A row that is masked as a whole has no say in ours (nor in verl's) denominator; TRL divides by all rows."""
    batch = wide()
    rows, filled = len(batch.mask), int((batch.lengths > 0).sum())
    assert (rows, filled) == (10, 9)
    for rule in ("sample_mean", "constant"):
        ours, theirs = headrace(batch, dual, rule), trl(batch, rule)
        assert ours.loss * filled == pytest.approx(theirs.loss * rows, rel=1e-9)


def test_verls_constant_norm_follows_the_padding_unless_told() -> None:
    """verl 0.9.1 divides by the padded width of the batch when ``loss_scale_factor`` is not set; ours always by the
    completion budget, so that the same tokens weigh the same in every batch."""
    batch = wide()
    ours = headrace(batch, dual, "constant")
    unset = verl(batch, "constant", info={"loss_scale_factor": None})
    width = batch.mask.shape[1]
    assert width == 13
    assert unset.loss * width == pytest.approx(ours.loss * 16, rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_micro_batches_with_global_counts(rule: str) -> None:
    """verl's losses of two halves add up to ours over the whole when it is given the counts of the whole."""
    batch = wide()
    info = {"batch_num_tokens": int(batch.mask.sum()), "global_batch_size": int((batch.lengths > 0).sum())}
    halves = [batch.rows(slice(0, 3)), batch.rows(slice(3, None))]
    parts = [verl(half, rule, info=info) for half in halves]
    joined = Result(sum(p.loss for p in parts), torch.cat([p.grad for p in parts]))
    assert_agree(headrace(batch, dual, rule), joined)


def test_trl_dapo_is_exact_over_accumulation_and_bnpo_is_not() -> None:
    """Under ``dapo`` TRL divides by the tokens of the whole generation batch; ``bnpo`` averages the token means of the
    micro-batches, which is another number as soon as they hold unequal token counts."""
    batch = wide(lengths=FULL)
    halves = [batch.rows(slice(0, 2)), batch.rows(slice(2, None))]
    tokens = [int(half.mask.sum()) for half in halves]
    assert tokens[0] != tokens[1]

    def accumulated(loss_type: str) -> Result:
        trainer = partial(
            trl_side.stand_in,
            epsilon_low=0.2,
            epsilon_high=0.28,
            args_delta=3.0,
            loss_type=loss_type,
            current_gradient_accumulation_steps=2,
            args_steps_per_generation=2,
        )
        parts = [peer(h, trl_side.policy_loss(h, trainer(), num_items=sum(tokens))) for h in halves]
        return Result(sum(p.loss for p in parts), torch.cat([p.grad for p in parts]))

    ours = headrace(batch, dual)
    assert_agree(ours, accumulated("dapo"))
    bnpo = accumulated("bnpo")
    means = [headrace(half, dual).loss for half in halves]
    assert bnpo.loss == pytest.approx(sum(means) / 2, rel=1e-9)
    assert (bnpo.grad - ours.grad).norm() > 0.1 * ours.grad.norm()
