"""Worked-out values of CISPO (arXiv 2506.13585 eq. 4-5; one-sided cap as in arXiv 2510.13786)."""

import math

import pytest
import torch

from headrace.objectives.cispo import cispo
from headrace.objectives.inputs import LossInputs


def inputs(logprob, ratio, advantage):
    current = torch.tensor(logprob, dtype=torch.float64)
    return LossInputs(
        anchor_logprob=current - torch.tensor(ratio, dtype=torch.float64).log(),
        logprob=current.clone().requires_grad_(),
        advantage=torch.tensor(advantage, dtype=torch.float64),
        segment=torch.zeros(len(logprob), dtype=torch.int64),
    )


def test_on_policy_sum():
    loss = cispo(inputs([-1.0, -2.0, -3.0], [1.0] * 3, [0.5, -0.5, 1.0]), ratio_max=4.0)
    assert loss.value.sum().item() == pytest.approx(2.5)


def test_cap_bounds_the_weight_and_keeps_the_gradient():
    x = inputs([-1.0], [100.0], [1.0])
    loss = cispo(x, ratio_max=4.0)
    loss.value.sum().backward()
    assert loss.value.item() == pytest.approx(4.0)
    assert x.logprob.grad.item() == pytest.approx(-4.0)


def test_gradient_is_minus_weight_times_advantage_for_both_signs():
    ratio, advantage = [1.0, 3.0, 9.0, 0.4, 9.0], [1.0, 1.0, 1.0, 1.0, -1.0]
    x = inputs([-1.0] * 5, ratio, advantage)
    cispo(x, ratio_max=5.0).value.sum().backward()
    weight = [1.0, 3.0, 5.0, 0.4, 5.0]
    assert x.logprob.grad.tolist() == pytest.approx([-w * a for w, a in zip(weight, advantage, strict=True)])


def test_two_sided_range_raises_small_weights():
    x = inputs([-1.0] * 4, [1.0, 1.14, 1.56, 0.4], [1.0] * 4)
    loss = cispo(x, ratio_max=1.28, ratio_min=0.8)
    assert loss.value.tolist() == pytest.approx([1.0, 1.14, 1.28, 0.8])
    assert loss.stats["ratio_capped"].tolist() == [0, 0, 1, 0]
    assert loss.stats["ratio_raised"].tolist() == [0, 0, 0, 1]


def test_no_lower_cap_leaves_small_weights_alone():
    assert cispo(inputs([-1.0], [0.3], [1.0]), ratio_max=2.0).value.item() == pytest.approx(0.3)


def test_capped_share_is_reported_and_clip_shares_are_not():
    loss = cispo(inputs([-1.0] * 3, [0.5, 1.1, 1.6], [1.0] * 3), ratio_max=1.28)
    assert loss.stats["ratio_capped"].mean().item() == pytest.approx(1 / 3)
    assert not {"clip_low", "clip_high", "ratio_raised"} & set(loss.stats)


def test_overflowing_ratio_gives_the_cap():
    current = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    x = LossInputs(
        logprob=current,
        anchor_logprob=torch.tensor([-800.0], dtype=torch.float64),
        advantage=torch.ones(1, dtype=torch.float64),
        segment=torch.zeros(1, dtype=torch.int64),
    )
    loss = cispo(x, ratio_max=5.0)
    loss.value.sum().backward()
    assert loss.value.item() == pytest.approx(5.0)
    assert math.isfinite(current.grad.item())
    assert loss.stats["log_ratio_clamped"].item() == 1
