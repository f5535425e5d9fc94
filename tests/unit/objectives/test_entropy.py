import pytest
import torch

from headrace.errors import RecordError
from headrace.objectives.entropy import adapted_coef, applied_coef, entropy_bonus
from tests.unit.objectives.tokens import loss_inputs, tensor


def test_bonus_lowers_the_loss_and_pushes_the_entropy_up():
    entropy = tensor([0.582203, 1.0]).requires_grad_()
    loss = entropy_bonus(loss_inputs([0.0, 0.0], [1.0, 1.0], entropy=entropy), coef=0.01)
    assert loss.value.tolist() == pytest.approx([-0.00582203, -0.01])
    assert torch.autograd.grad(loss.value.sum(), entropy)[0].tolist() == pytest.approx([-0.01, -0.01])


def test_entropy_must_be_there():
    with pytest.raises(RecordError, match="entropy_bonus needs the loss input entropy"):
        entropy_bonus(loss_inputs([0.0], [1.0]), coef=0.01)


@pytest.mark.parametrize(
    ("coef", "entropy", "moved"),
    [(0.01, 0.19, 0.015), (0.01, 0.2, 0.015), (0.01, 0.21, 0.005), (0.003, 0.3, 0.0), (0.098, 0.1, 0.1)],
)
def test_weight_moves_towards_the_target_within_its_range(coef, entropy, moved):
    assert adapted_coef(coef, entropy, target=0.2, delta=0.005, coef_max=0.1) == pytest.approx(moved)


def test_steered_weight_acts_only_at_or_below_the_target():
    assert applied_coef(0.05, 0.2, target=0.2) == 0.05
    assert applied_coef(0.05, 0.21, target=0.2) == 0.0
    assert applied_coef(0.05, None, target=0.2) == 0.0
    assert applied_coef(0.05, None, target=None) == 0.05
