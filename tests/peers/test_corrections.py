"""Importance corrections against verl's rollout_corr_helper, TRL and polgrad.

Tried with trl 1.16.0, verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from polgrad.losses import ClipConfig, ISCorrectionConfig, SurrogateKind
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights, compute_rollout_rejection_mask

from headrace.objectives.corrections import importance_weight, off_policy_sequence_mask
from headrace.objectives.ppo_clip import ppo_clip
from tests.peers import polgrad_side, trl_side
from tests.peers.batch import FULL, Batch, assert_agree, assert_close, headrace, make_batch, peer


def ours(batch: Batch, **keys: object) -> Tensor:
    return importance_weight(batch.flat(batch.old), batch.flat(batch.behaviour), batch.segment, **keys)


def verl(batch: Batch, level: str, threshold: float | str) -> Tensor:
    weight, _ = compute_rollout_correction_weights(
        batch.old - batch.behaviour, batch.mask.double(), rollout_is=level, rollout_is_threshold=threshold
    )
    return batch.flat(weight)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_truncated_is_verls(level: str) -> None:
    batch = make_batch()
    weight = ours(batch, mode="truncate", level=level, high=2.0)
    assert 0 < int((weight == 2.0).sum()) < len(weight)
    assert_close(weight, verl(batch, level, 2.0))


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_masked_is_verls_icepop(level: str) -> None:
    batch = make_batch()
    weight = ours(batch, mode="mask", level=level, low=0.5, high=1.5)
    assert 0 < int((weight == 0).sum()) < len(weight)
    assert_close(weight, verl(batch, level, "0.5_1.5"))


@pytest.mark.parametrize(("mode", "low"), [("truncate", 0.0), ("mask", 0.5)])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_trls_vllm_correction(mode: str, low: float, level: str) -> None:
    batch = make_batch(lengths=FULL, gaps=False)
    produced = trl_side.scored(
        batch.row_advantage,
        group_size=3,
        batch=batch,
        scale_rewards="none",
        vllm_importance_sampling_mode=f"{level}_{mode}",
        vllm_importance_sampling_clip_min=low,
        vllm_importance_sampling_clip_max=1.5,
    )
    width = max(FULL)
    theirs = produced["importance_sampling_ratio"].expand(-1, width)[batch.mask[:, :width]]
    weight = ours(batch, mode=mode, level=level, low=low, high=1.5)
    assert (weight != (batch.flat(batch.old) - batch.flat(batch.behaviour)).exp()).any()
    # TRL's sampled log-probabilities go through a float32 tensor.
    assert_close(weight, theirs, rtol=1e-6)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_polgrads_truncation_in_the_loss(level: str) -> None:
    batch = make_batch(lengths=FULL)
    padded = torch.zeros_like(batch.old)
    padded[batch.mask] = ours(batch, mode="truncate", level=level, high=2.0)
    kernel = partial(ppo_clip, clip_low=0.2, clip_high=0.28)
    theirs = polgrad_side.policy_loss(
        batch,
        SurrogateKind.PG_CLIP,
        clip=ClipConfig(eps_low=0.2, eps_high=0.28),
        is_correction=ISCorrectionConfig(cap=2.0, level=level),
    )
    assert_agree(headrace(batch, kernel, correction_weight=padded), peer(batch, theirs))


def test_sequence_log_weights_are_bounded_at_20_as_in_verl_not_in_trl() -> None:
    batch = make_batch(lengths=FULL, gaps=False)
    batch.behaviour[3] = batch.old[3] - 2
    weight = ours(batch, mode="truncate", level="sequence", high=1e12)
    assert_close(weight, verl(batch, "sequence", 1e12))
    assert weight.max() == torch.tensor(20.0).double().exp()
    assert (batch.old - batch.behaviour)[3, :12].sum() == pytest.approx(24)


def test_geometric_bounds_are_upside_down_in_verl() -> None:
    """verl's ``seq_mean_k1`` holds the inverse ratio pi_rollout / pi_train to its bounds; ours, and the recipes with
    [.999, 1.002], hold pi_train / pi_rollout. [low, high] there is [1/high, 1/low] here. verl keeps a mask apart from
    its weights; ours is the weight itself, so only who is dropped can be compared."""
    batch = make_batch()
    low, high = 0.9, 1.3
    kept = ours(batch, mode="mask", level="geometric", low=1 / high, high=1 / low) > 0
    gap = batch.old - batch.behaviour
    theirs, _ = compute_rollout_rejection_mask(gap, batch.mask.double(), "seq_mean_k1", f"{low}_{high}")
    assert torch.equal(kept, batch.flat(theirs) > 0)
    same_bounds = ours(batch, mode="mask", level="geometric", low=low, high=high) > 0
    assert not torch.equal(same_bounds, kept)


def test_geometric_weight_is_the_sequences_geometric_mean() -> None:
    """No peer gives this weight to a loss; it is verl's per-sequence statistic."""
    batch = make_batch()
    gap = torch.where(batch.mask, batch.old - batch.behaviour, 0.0)
    mean = gap.sum(1) / batch.lengths.clamp(min=1)
    weight = ours(batch, mode="truncate", level="geometric", high=1e9)
    _, metrics = compute_rollout_rejection_mask(gap, batch.mask.double(), "seq_mean_k1", "1e-9_1e9")
    filled = batch.lengths > 0
    assert metrics["rollout_rs_seq_mean_k1_max"] == pytest.approx(-float(mean[filled].min()), rel=1e-6)
    assert_close(weight, mean.exp()[batch.segment])
    assert float(weight.min().log()) == pytest.approx(-metrics["rollout_rs_seq_mean_k1_max"], rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 0.1, 10.0])
def test_off_policy_sequence_mask_is_trls(delta: float) -> None:
    batch = make_batch()
    ours_ = off_policy_sequence_mask(
        batch.flat(batch.logprob), batch.flat(batch.old), batch.flat(batch.spread_advantage), batch.segment, delta=delta
    )
    theirs = GRPOTrainer.get_off_policy_mask(
        batch.spread_advantage, batch.logprob, batch.old, batch.mask.double(), delta
    )
    assert torch.equal(ours_, batch.flat(theirs))
    if delta < 10:
        assert 0 < int((ours_ == 0).sum()) < len(ours_)
