"""Objectives that look at whole sequences, GSPO and GMPO, and SAPO's gate, against TRL, verl and polgrad.

Tried with trl 1.16.0, verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from polgrad.losses import ClipConfig, RatioKind, SurrogateKind

from headrace.objectives.gmpo import gmpo
from headrace.objectives.gspo import gspo
from headrace.objectives.sapo import sapo
from tests.peers import polgrad_side, trl_side, verl_side
from tests.peers.batch import FULL, Batch, Result, assert_agree, assert_same_grad, headrace, make_batch, peer

# Wide enough for the batch to have sequences inside the range and on either side of it.
CLIP = {"clip_low": 0.1, "clip_high": 0.12}
VERL = {"clip_ratio_low": 0.1, "clip_ratio_high": 0.12}


def mixed(**keys: object) -> Batch:
    batch = make_batch(spread=0.4, seed=10, **keys)
    gap = torch.where(batch.mask, batch.logprob - batch.old, 0.0)
    s = (gap.sum(1) / batch.lengths.clamp(min=1)).exp()[batch.lengths > 0]
    a = batch.row_advantage[batch.lengths > 0]
    assert ((s > 1.12) & (a > 0)).any()
    assert ((s < 0.9) & (a < 0)).any()
    assert ((s > 0.9) & (s < 1.12)).any()
    return batch


def trl_gspo(batch: Batch, rule: str, advantage: torch.Tensor) -> Result:
    trainer = trl_side.stand_in(
        epsilon_low=0.1, epsilon_high=0.12, importance_sampling_level="sequence", loss_type=trl_side.LOSS_TYPE[rule]
    )
    return peer(batch, trl_side.policy_loss(batch, trainer, advantage=advantage))


@pytest.mark.parametrize("rule", ["sample_mean", "token_mean", "constant"])
def test_gspo_is_trls_sequence_level(rule: str) -> None:
    batch = mixed(lengths=FULL)
    ours = headrace(batch, partial(gspo, **CLIP), rule, advantage=batch.spread_advantage)
    assert_agree(ours, trl_gspo(batch, rule, batch.spread_advantage))


def test_gspo_is_polgrads_sequence_ratio() -> None:
    batch = mixed(lengths=FULL)
    clip = ClipConfig(eps_low=0.1, eps_high=0.12)
    for kind, form in ((RatioKind.SEQUENCE, False), (RatioKind.SEQUENCE_TOKEN, True)):
        theirs = polgrad_side.policy_loss(batch, SurrogateKind.PG_CLIP, "sample_mean", clip=clip, ratio=kind)
        assert_agree(headrace(batch, partial(gspo, **CLIP, token_form=form), "sample_mean"), peer(batch, theirs))


@pytest.mark.parametrize("rule", ["sample_mean", "token_mean", "constant"])
def test_the_token_form_is_verls_gspo(rule: str) -> None:
    batch = mixed()
    ours = headrace(batch, partial(gspo, **CLIP, token_form=True), rule)
    assert_agree(ours, peer(batch, verl_side.policy_loss(batch, "gspo", rule, **VERL)))


def test_verls_gspo_has_the_papers_gradient_only_where_the_advantage_is_constant() -> None:
    """verl has the token form alone. Its value is GSPO's, its gradient that of GSPO for one advantage a sequence."""
    batch = mixed()
    paper = partial(gspo, **CLIP)
    same = peer(batch, verl_side.policy_loss(batch, "gspo", "sample_mean", advantage=batch.spread_advantage, **VERL))
    assert_agree(headrace(batch, paper, "sample_mean", advantage=batch.spread_advantage), same)
    ours = headrace(batch, paper, "sample_mean")
    theirs = peer(batch, verl_side.policy_loss(batch, "gspo", "sample_mean", **VERL))
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-6)
    assert (ours.grad - theirs.grad).norm() > 0.1 * theirs.grad.norm()


def test_verls_gspo_bounds_the_sequences_log_ratio_at_10_ours_each_tokens_at_20() -> None:
    batch = make_batch()
    batch.logprob[0] = batch.old[0] + 11
    batch.row_advantage[0] = -1.0
    rule, kernel = "sample_mean", partial(gspo, **CLIP, token_form=True)
    ours = headrace(batch, kernel, rule, advantage=batch.spread_advantage)
    theirs = peer(batch, verl_side.policy_loss(batch, "gspo", rule, advantage=batch.spread_advantage, **VERL))
    filled = int((batch.lengths > 0).sum())
    by_hand = (torch.tensor(11.0).double().exp() - torch.tensor(10.0).double().exp()) / filled
    assert ours.loss - theirs.loss == pytest.approx(float(by_hand), rel=1e-6)
    assert (theirs.grad[0] == 0).all()
    assert float(ours.grad[0].sum()) == pytest.approx(float(torch.tensor(11.0).double().exp()) / filled, rel=1e-9)


def test_verl_has_no_dual_clip_in_gspo_and_neither_have_we() -> None:
    batch = make_batch()
    batch.logprob[0] = batch.old[0] + 2
    batch.row_advantage[0] = -1.0
    ours = headrace(batch, partial(gspo, **CLIP, token_form=True), advantage=batch.spread_advantage)
    assert (ours.grad[0][batch.mask[0]] > 0).all()
    theirs = verl_side.policy_loss(batch, "gspo", advantage=batch.spread_advantage, clip_ratio_c=3.0, **VERL)
    assert_agree(ours, peer(batch, theirs))


def test_gmpo_is_trls() -> None:
    batch = make_batch(lengths=FULL, spread=0.6, seed=1)
    trainer = trl_side.stand_in(epsilon_low=0.4, epsilon_high=0.4)
    ours = headrace(batch, gmpo, "sample_mean", advantage=batch.spread_advantage)
    assert_agree(ours, peer(batch, trl_side.gmpo(batch, trainer)))


def test_gmpo_is_verls() -> None:
    batch = make_batch(lengths=FULL, spread=0.6, seed=1)
    keys = {"clip_ratio_low": 0.4, "clip_ratio_high": 0.4}
    theirs = peer(batch, verl_side.policy_loss(batch, "geo_mean", advantage=batch.spread_advantage, **keys))
    assert_agree(headrace(batch, gmpo, "sample_mean", advantage=batch.spread_advantage), theirs)


def test_gmpo_of_verl_counts_rows_without_tokens() -> None:
    """They add 0 to the sum and 1 to the count, whatever aggregation is set; ours leaves them out of the mean."""
    batch = make_batch(spread=0.6, seed=1)
    rows, filled = len(batch.mask), int((batch.lengths > 0).sum())
    keys = {"clip_ratio_low": 0.4, "clip_ratio_high": 0.4}
    theirs = peer(batch, verl_side.policy_loss(batch, "geo_mean", advantage=batch.spread_advantage, **keys))
    ours = headrace(batch, gmpo, "sample_mean", advantage=batch.spread_advantage)
    assert ours.loss * filled == pytest.approx(theirs.loss * rows, rel=1e-6)
    assert_same_grad(Result(ours.loss, ours.grad * filled / rows), theirs)


def test_sapo() -> None:
    """verl and TRL average by rows whatever is asked for; under our sample_mean all three are one."""
    batch = make_batch(lengths=FULL, spread=1.0)
    ours = headrace(batch, sapo, "sample_mean")
    assert_agree(ours, peer(batch, verl_side.policy_loss(batch, "sapo", "token_mean")))
    assert_agree(ours, peer(batch, trl_side.policy_loss(batch, trl_side.stand_in(loss_type="sapo"))))
