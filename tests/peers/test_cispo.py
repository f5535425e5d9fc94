"""CISPO and REINFORCE against TRL, verl and polgrad.

Tried with trl 1.16.0, verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from polgrad.losses import ClipConfig, SurrogateKind

from headrace.objectives.cispo import cispo
from headrace.objectives.inputs import LossInputs
from headrace.objectives.reinforce import reinforce
from tests.peers import polgrad_side, trl_side, verl_side
from tests.peers.batch import FULL, Batch, assert_agree, headrace, make_batch, peer


def wide(**keys: object) -> Batch:
    batch = make_batch(spread=1.0, **keys)
    r = batch.flat((batch.logprob - batch.old).exp())
    assert (r < 0.8).any()
    assert (r > 2).any()
    return batch


def test_trls_epsilon_high_is_our_absolute_cap() -> None:
    batch = wide()
    trainer = trl_side.stand_in(loss_type="cispo", epsilon_high=2.0)
    assert_agree(headrace(batch, partial(cispo, ratio_max=2.0)), peer(batch, trl_side.policy_loss(batch, trainer)))


def test_trl_counts_only_caps_on_positive_advantages() -> None:
    """Its ``cispo_clip_ratio`` leaves A <= 0 out although the weight is capped there too; ours counts every cap."""
    batch = wide()
    trainer = trl_side.stand_in(loss_type="cispo", epsilon_high=2.0)
    trl_side.policy_loss(batch, trainer)(batch.logprob)
    r, a = batch.flat((batch.logprob - batch.old).exp()), batch.flat(batch.advantage)
    x = LossInputs(
        logprob=batch.flat(batch.logprob), anchor_logprob=batch.flat(batch.old), advantage=a, segment=batch.segment
    )
    capped = cispo(x, ratio_max=2.0).stats["ratio_capped"]
    assert float(capped.mean()) == pytest.approx(float((r > 2).double().mean()))
    theirs = trainer._metrics["train"]["cispo_clip_ratio"][0]
    assert theirs == pytest.approx(float(capped[a > 0].sum() / len(a)), rel=1e-6)
    assert theirs < float(capped.mean())


@pytest.mark.parametrize("rule", ["token_mean", "sample_mean", "constant"])
def test_verls_two_offsets_are_our_two_caps(rule: str) -> None:
    """verl: clamp(r, 1 - low, 1 + high), with .2 / .2 by default; ours names the bounds themselves."""
    batch = wide()
    theirs = peer(batch, verl_side.policy_loss(batch, "cispo", rule, clip_ratio_low=0.3, clip_ratio_high=1.0))
    assert_agree(headrace(batch, partial(cispo, ratio_min=0.7, ratio_max=2.0), rule), theirs)


def test_verl_cannot_be_one_sided_below_its_default() -> None:
    """The one-sided cap of the papers needs clip_ratio_low 1 there; with its default .2 small ratios are raised."""
    batch = wide()
    one_sided = headrace(batch, partial(cispo, ratio_max=2.0))
    zero = peer(batch, verl_side.policy_loss(batch, "cispo", clip_ratio_low=1.0, clip_ratio_high=1.0))
    assert_agree(one_sided, zero)
    default = peer(batch, verl_side.policy_loss(batch, "cispo", clip_ratio_high=1.0))
    raised = batch.mask & ((batch.logprob - batch.old).exp() < 0.8)
    assert ((default.grad - one_sided.grad).abs()[raised] > 1e-6).all()
    torch.testing.assert_close(default.grad[~raised], one_sided.grad[~raised], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("low", "bounds"), [(None, {}), (0.3, {"ratio_min": 0.7})])
def test_polgrad(low: float | None, bounds: dict[str, float]) -> None:
    batch = wide(lengths=FULL)
    clip = ClipConfig(eps_low=low, eps_high=1.0)
    theirs = peer(batch, polgrad_side.policy_loss(batch, SurrogateKind.CISPO, clip=clip))
    assert_agree(headrace(batch, partial(cispo, ratio_max=2.0, **bounds)), theirs)


@pytest.mark.parametrize("rule", ["token_mean", "sample_mean", "constant"])
def test_reinforce(rule: str) -> None:
    batch = wide(lengths=FULL)
    ours = headrace(batch, reinforce, rule)
    assert_agree(ours, peer(batch, polgrad_side.policy_loss(batch, SurrogateKind.REINFORCE, rule)))
    assert_agree(ours, peer(batch, verl_reinforce(batch, rule)))


def test_reinforce_with_correction_weights() -> None:
    batch = wide()
    weight = (batch.logprob - batch.behaviour).exp().clamp(max=2.0)
    ours = headrace(batch, reinforce, correction_weight=weight)
    assert_agree(ours, peer(batch, verl_reinforce(batch, "token_mean", weight)))


def test_cispo_without_caps_is_reinforce_with_the_raw_ratio() -> None:
    """verl's bypass mode (ratio to the sampler as weight on REINFORCE) is CISPO with a behaviour anchor."""
    batch = wide()
    ratio = (batch.logprob - batch.old).exp()
    ours = headrace(batch, partial(cispo, ratio_max=1e9))
    assert_agree(ours, peer(batch, verl_reinforce(batch, "token_mean", ratio)))


def verl_reinforce(batch: Batch, rule: str, weight: torch.Tensor | None = None):
    from verl.trainer.ppo.core_algos import compute_policy_loss_reinforce

    info = {"loss_scale_factor": 16} if rule == "constant" else {}

    def loss_of(logprob: torch.Tensor) -> torch.Tensor:
        return compute_policy_loss_reinforce(
            rollout_log_prob=batch.behaviour,
            log_prob=logprob,
            advantages=batch.advantage,
            response_mask=batch.mask.double(),
            loss_agg_mode=verl_side.AGGREGATION[rule],
            config=verl_side.actor(info=info),
            rollout_is_weights=weight,
        )[0]

    return loss_of
