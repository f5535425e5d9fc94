"""The clipped value loss, by hand."""

import pytest
import torch

from headrace.objectives.value_loss import value_loss
from tests.unit.objectives.tokens import tensor


def losses(value, old, returns, clip):
    leaf = tensor(value).requires_grad_()
    loss = value_loss(leaf, tensor(old), tensor(returns), clip=clip)
    return loss, torch.autograd.grad(loss.value.sum(), leaf)[0].tolist()


def test_known_means():
    clipped, _ = losses([1.5, 0.5], [1.0, 1.0], [0.0, 0.0], 0.2)
    plain, _ = losses([1.5, 0.5], [1.0, 1.0], [0.0, 0.0], None)
    assert clipped.value.mean().item() == pytest.approx(0.7225)
    assert plain.value.mean().item() == pytest.approx(0.625)
    assert "value_clip" not in plain.stats


def test_a_value_loses_its_gradient_once_it_moved_far_enough_towards_the_return():
    # Towards the return beyond .2; away from it beyond .2; within .2.
    loss, slope = losses([0.5, 1.5, 0.9], [1.0] * 3, [0.0] * 3, 0.2)
    assert loss.value.tolist() == pytest.approx([0.32, 1.125, 0.405])
    assert slope == pytest.approx([0.0, 1.5, 0.9])
    assert loss.stats["value_clip"].tolist() == [1, 0, 0]
    assert loss.stats["value_error"].tolist() == pytest.approx([0.5, 1.5, 0.9])


def test_gradient_by_finite_differences():
    generator = torch.Generator().manual_seed(2)
    value, old, returns = (torch.randn(30, generator=generator, dtype=torch.float64) for _ in range(3))
    assert torch.autograd.gradcheck(lambda v: value_loss(v, old, returns, clip=0.3).value, (value.requires_grad_(),))
