"""polgrad's hand-worked cases: loss and gradient of each, worked out on paper by its authors.

Tried with polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from polgrad.aggregate import Aggregation
from polgrad.losses import RatioKind, SurrogateKind
from polgrad.verify.goldens import GoldenCase, golden_cases

from headrace.objectives.inputs import LossInputs
from headrace.objectives.ppo_clip import ppo_clip
from headrace.packing.loss_weights import token_weights

RULE = {Aggregation.TOKEN_MEAN: "token_mean", Aggregation.SEQ_MEAN_TOKEN_MEAN: "sample_mean"}


def test_there_are_cases_for_every_branch() -> None:
    assert len(golden_cases()) == 6


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case.name)
def test_golden(case: GoldenCase) -> None:
    config, mask = case.config, case.response_mask
    assert (config.surrogate, config.ratio) == (SurrogateKind.PG_CLIP, RatioKind.TOKEN)
    advantage = case.advantages if case.advantages.dim() == 2 else case.advantages[:, None].expand_as(mask)
    segment = torch.arange(len(mask))[:, None].expand_as(mask)[mask]
    logprob = case.logprobs[mask].requires_grad_()
    value = ppo_clip(
        LossInputs(logprob=logprob, anchor_logprob=case.old_logprobs[mask], advantage=advantage[mask], segment=segment),
        clip_low=config.clip.eps_low,
        clip_high=config.clip.eps_high,
        dual_clip=config.clip.ratio_cap,
    ).value
    lengths = mask.sum(1).numpy()
    weight = torch.from_numpy(token_weights(RULE[config.aggregation], lengths, np.arange(len(mask))))
    loss = (value * weight[segment]).sum()
    (grad,) = torch.autograd.grad(loss, logprob)
    torch.testing.assert_close(float(loss.detach()), case.expected_loss, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(grad, case.expected_grad_logprobs[mask], rtol=1e-12, atol=1e-15)
