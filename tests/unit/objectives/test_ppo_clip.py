"""Worked-out values of the clipped surrogate (arXiv 1707.06347 eq. 7, dual clip arXiv 1912.09729)."""

import math

import numpy as np
import pytest
import torch

from headrace.objectives.inputs import LossInputs
from headrace.objectives.ppo_clip import ppo_clip
from headrace.packing.loss_weights import token_weights


def inputs(log_ratio, advantage, **extra):
    logprob = torch.tensor(log_ratio, dtype=torch.float64) - 1.0
    anchor = torch.full_like(logprob, -1.0)
    segment = torch.zeros(len(log_ratio), dtype=torch.int64)
    return LossInputs(
        logprob=logprob.requires_grad_(),
        anchor_logprob=anchor,
        advantage=torch.tensor(advantage, dtype=torch.float64),
        segment=segment,
        **extra,
    )


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "value", "slope"),
    [
        (0.2, 1.5, -1.5 * math.exp(0.2), -1.5 * math.exp(0.2)),  # inside .2/.3
        (0.5, 2.0, -2.6, 0.0),  # clipped above
        (-0.5, -1.0, 0.8, 0.0),  # clipped below
        (0.5, -1.0, math.exp(0.5), math.exp(0.5)),  # above the range, but clipping would help the loss: not clipped
        (-0.5, 1.0, -math.exp(-0.5), -math.exp(-0.5)),  # below the range, likewise
        (0.5, 0.0, 0.0, 0.0),
    ],
)
def test_value_and_gradient(log_ratio, advantage, value, slope):
    x = inputs([log_ratio], [advantage])
    loss = ppo_clip(x, clip_low=0.2, clip_high=0.3)
    loss.value.sum().backward()
    assert loss.value.item() == pytest.approx(value, abs=1e-12)
    assert x.logprob.grad.item() == pytest.approx(slope, abs=1e-12)


def test_dual_clip_bounds_negative_advantages_only():
    x = inputs([math.log(2), math.log(2), math.log(0.5)], [2.0, -2.0, 2.0])
    loss = ppo_clip(x, clip_low=0.2, clip_high=0.2, dual_clip=1.5)
    loss.value.sum().backward()
    assert loss.value.tolist() == pytest.approx([-2.4, 3.0, -1.0])
    assert x.logprob.grad.tolist() == pytest.approx([0.0, 0.0, -1.0])
    assert loss.stats["dual_clip"].tolist() == [0, 1, 0]


@pytest.mark.parametrize(("dual_clip", "value"), [(3.0, 3.0), (None, 8.0)])
def test_large_ratio_with_negative_advantage(dual_clip, value):
    loss = ppo_clip(inputs([math.log(8)], [-1.0]), clip_low=0.2, clip_high=0.2, dual_clip=dual_clip)
    assert loss.value.item() == pytest.approx(value)


def test_known_mean_of_three_tokens():
    x = inputs([math.log(0.5), 0.0, math.log(1.5)], [1.0, -1.0, 2.0])
    loss = ppo_clip(x, clip_low=0.2, clip_high=0.2)
    assert loss.value.mean().item() == pytest.approx(-0.63333, abs=1e-5)


def test_negative_advantage_is_bounded_at_twice_itself():
    loss = ppo_clip(inputs([1.0], [-1.5]), clip_low=0.2, clip_high=0.3, dual_clip=2.0)
    assert loss.value.item() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("rule", "value"), [("token_mean", (0.3 + math.exp(0.1)) / 3), ("sample_mean", 0.3 / 4 + math.exp(0.1) / 2)]
)
def test_two_averages_of_a_ragged_batch(rule, value):
    # Two tokens with losses .1 and .2, and a rollout of one token that moved by .1 against its advantage.
    loss = ppo_clip(inputs([0.0, 0.0, 0.1], [-0.1, -0.2, -1.0]), clip_low=0.2, clip_high=0.3)
    weight = np.repeat(token_weights(rule, [2, 1], [0, 0]), [2, 1])
    assert (loss.value * torch.from_numpy(weight)).sum().item() == pytest.approx(value)


def test_clip_statistics_know_the_sign_of_the_advantage():
    log_ratio = [0.5, 0.5, -0.5, -0.5, 0.0]
    loss = ppo_clip(inputs(log_ratio, [1.0, -1.0, 1.0, -1.0, 1.0]), clip_low=0.2, clip_high=0.2)
    assert loss.stats["clip_high"].tolist() == [1, 0, 0, 0, 0]
    assert loss.stats["clip_low"].tolist() == [0, 0, 0, 1, 0]
    assert loss.stats["ratio"].tolist() == pytest.approx([math.exp(v) for v in log_ratio])


def test_overflowing_ratio_is_clamped_counted_and_has_no_gradient():
    x = inputs([50.0, -50.0, 1.0], [-1.0, 1.0, -1.0])
    loss = ppo_clip(x, clip_low=0.2, clip_high=0.2)
    loss.value.sum().backward()
    assert loss.value.tolist() == pytest.approx([math.exp(20), -math.exp(-20), math.e])
    assert x.logprob.grad.tolist() == pytest.approx([0.0, 0.0, math.e])
    assert loss.stats["log_ratio_clamped"].tolist() == [1, 1, 0]


def test_correction_weight_multiplies_value_and_gradient():
    x = inputs([0.1], [1.0], correction_weight=torch.tensor([0.5], dtype=torch.float64))
    loss = ppo_clip(x, clip_low=0.2, clip_high=0.2)
    loss.value.sum().backward()
    assert loss.value.item() == pytest.approx(-0.5 * math.exp(0.1))
    assert x.logprob.grad.item() == pytest.approx(-0.5 * math.exp(0.1))


def test_gradient_by_finite_differences():
    generator = torch.Generator().manual_seed(0)
    logprob = (-torch.rand(40, generator=generator, dtype=torch.float64)).requires_grad_()
    anchor = -torch.rand(40, generator=generator, dtype=torch.float64)
    advantage = torch.randn(40, generator=generator, dtype=torch.float64)

    def value(current):
        x = LossInputs(logprob=current, anchor_logprob=anchor, advantage=advantage, segment=torch.zeros(40).long())
        return ppo_clip(x, clip_low=0.2, clip_high=0.28, dual_clip=3.0).value

    assert torch.autograd.gradcheck(value, (logprob,), eps=1e-7, atol=1e-6)
