"""Clip-Cov and KL-Cov against verl, the only peer that has them.

Tried with verl 0.9.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from headrace.objectives.covariance import clip_cov, clip_cov_selection, kl_cov, kl_cov_selection, token_covariance
from headrace.objectives.ppo_clip import ppo_clip
from headrace.objectives.update_figures import UpdateTokens
from tests.peers import verl_side
from tests.peers.batch import Batch, Result, assert_agree, assert_same_grad, headrace, make_batch, peer

CLIP = {"clip_low": 0.2, "clip_high": 0.28}
VERL = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28}


def update_tokens(batch: Batch) -> UpdateTokens:
    draw = torch.Generator().manual_seed(11)
    return UpdateTokens(
        logprob=batch.flat(batch.logprob),
        anchor_logprob=batch.flat(batch.old),
        advantage=batch.flat(batch.advantage),
        segment=batch.segment,
        noise=torch.rand(int(batch.mask.sum()), generator=draw, dtype=torch.float64),
    )


def padded(batch: Batch, selected: Tensor) -> Tensor:
    out = torch.zeros_like(batch.mask)
    out[batch.mask] = selected
    return out


def clipped(batch: Batch) -> Tensor:
    """Tokens [B, W] whose gradient the range removes."""
    r, a = (batch.logprob - batch.old).exp(), batch.advantage
    return batch.mask & (((a > 0) & (r > 1.28)) | ((a < 0) & (r < 0.8)))


def verl_clip_cov(batch: Batch, **keys: Any) -> Result:
    return peer(batch, verl_side.policy_loss(batch, "clip_cov", policy_loss=keys, **VERL))


def test_clip_cov_gradient_when_every_token_of_the_band_is_picked() -> None:
    """verl picks with the global random generator; with room for all there is nothing to pick."""
    batch = make_batch()
    picked = clip_cov_selection(update_tokens(batch), frac=1.0, cov_low=0.2, cov_high=5.0).selected
    assert 2 < int(picked.sum()) < len(picked)
    ours = headrace(batch, partial(clip_cov, **CLIP), selected=padded(batch, picked))
    theirs = verl_clip_cov(batch, clip_cov_ratio=1.0, clip_cov_lb=0.2, clip_cov_ub=5.0)
    assert_same_grad(ours, theirs)
    unpicked = headrace(batch, partial(ppo_clip, **CLIP))
    assert (ours.grad - unpicked.grad).norm() > 1e-3


def test_clip_cov_value_differs_by_the_picked_tokens() -> None:
    """verl multiplies their loss by 0, ours detaches it: the value keeps them, no gradient does in either."""
    batch = make_batch()
    picked = padded(batch, clip_cov_selection(update_tokens(batch), frac=1.0, cov_low=0.2, cov_high=5.0).selected)
    ours = headrace(batch, partial(clip_cov, **CLIP), selected=picked)
    theirs = verl_clip_cov(batch, clip_cov_ratio=1.0, clip_cov_lb=0.2, clip_cov_ub=5.0)
    r, a = (batch.logprob - batch.old).exp(), batch.advantage
    surrogate = torch.maximum(-a * r, -a * r.clamp(0.8, 1.28))
    gone = surrogate[picked & ~clipped(batch)].sum() / batch.mask.sum()
    assert ours.loss - theirs.loss == pytest.approx(float(gone), rel=1e-6)


def test_clip_cov_candidates_include_clipped_tokens_which_verl_leaves_out() -> None:
    """The paper ranks all tokens. The clipped ones have no gradient either way, so ours can spend picks on them:
    with few picks verl detaches as many unclipped tokens as it has picks, ours the unclipped ones among its picks."""
    batch = make_batch()
    tokens = update_tokens(batch)
    everything = padded(batch, clip_cov_selection(tokens, frac=1.0, cov_low=0.2, cov_high=5.0).selected)
    assert (everything & clipped(batch)).any()
    frac = 4.5 / len(tokens.logprob)
    ours = padded(batch, clip_cov_selection(tokens, frac=frac, cov_low=0.2, cov_high=5.0).selected)
    assert int(ours.sum()) == 4
    torch.manual_seed(0)
    theirs = verl_clip_cov(batch, clip_cov_ratio=frac, clip_cov_lb=0.2, clip_cov_ub=5.0)
    plain = headrace(batch, partial(ppo_clip, **CLIP))
    silenced = batch.mask & (theirs.grad == 0) & (plain.grad != 0)
    assert int(silenced.sum()) == 4
    assert (everything & ~clipped(batch))[silenced].all()


def test_clip_cov_picks_at_least_one_as_verl() -> None:
    batch = make_batch()
    picked = clip_cov_selection(update_tokens(batch), frac=1e-9, cov_low=0.2, cov_high=5.0).selected
    assert int(picked.sum()) == 1
    theirs = verl_clip_cov(batch, clip_cov_ratio=1e-9, clip_cov_lb=0.2, clip_cov_ub=5.0)
    plain = headrace(batch, partial(ppo_clip, **CLIP))
    assert int((batch.mask & (theirs.grad == 0) & (plain.grad != 0)).sum()) == 1


def test_the_band_is_open_in_verl_and_closed_in_ours() -> None:
    """A token exactly on the upper bound is a candidate of ours alone. The paper's interval is closed."""
    batch = make_batch()
    tokens = update_tokens(batch)
    covariance = token_covariance(tokens)
    free = ~batch.flat(clipped(batch))
    edge = float(covariance[free].max())
    picked = clip_cov_selection(tokens, frac=1.0, cov_low=0.99 * edge, cov_high=edge).selected
    assert int(picked[free].sum()) == 1
    # verl's mean divides by (count + 1e-8), so its covariances are ours only to 1e-9: stand clear on the open side.
    inside = verl_clip_cov(batch, clip_cov_ratio=1.0, clip_cov_lb=0.99 * edge, clip_cov_ub=edge * (1 + 1e-6))
    outside = verl_clip_cov(batch, clip_cov_ratio=1.0, clip_cov_lb=0.99 * edge, clip_cov_ub=edge * (1 - 1e-6))
    ours = headrace(batch, partial(clip_cov, **CLIP), selected=padded(batch, picked))
    assert_same_grad(ours, inside)
    assert_same_grad(headrace(batch, partial(ppo_clip, **CLIP)), outside)


@pytest.mark.parametrize("frac", [1e-9, 0.1, 0.5])
@pytest.mark.parametrize("coef", [0.1, 1.0])
def test_kl_cov(frac: float, coef: float) -> None:
    batch = make_batch()
    picked = kl_cov_selection(update_tokens(batch), frac=frac).selected
    assert int(picked.sum()) == max(1, int(frac * len(picked)))
    theirs = verl_side.policy_loss(batch, "kl_cov", policy_loss={"kl_cov_ratio": frac, "ppo_kl_coef": coef})
    assert_agree(headrace(batch, partial(kl_cov, coef=coef), selected=padded(batch, picked)), peer(batch, theirs))


def test_kl_cov_defaults_differ() -> None:
    """The paper's weight is 1 and its share 2e-3 (7B); verl's configuration has .1 and 2e-4."""
    config = verl_side.actor().policy_loss
    assert (config.ppo_kl_coef, config.kl_cov_ratio) == (0.1, 2e-4)
    batch = make_batch()
    picked = padded(batch, kl_cov_selection(update_tokens(batch)).selected)
    paper = peer(batch, verl_side.policy_loss(batch, "kl_cov", policy_loss={"kl_cov_ratio": 2e-3, "ppo_kl_coef": 1.0}))
    assert_agree(headrace(batch, kl_cov, selected=picked), paper)
