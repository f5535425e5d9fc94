"""REINFORCE: -A log pi, and the sum over an answer that RLOO (arXiv 2402.14740) takes."""

import pytest

from headrace.objectives.reinforce import reinforce
from tests.unit.objectives.tokens import loss_inputs, slope, tensor


def test_value_gradient_and_no_ratio():
    x = loss_inputs([3.0, -3.0, 0.0], [0.5, -0.5, 1.0], logprob=[-1.0, -2.0, -3.0])
    loss = reinforce(x)
    assert loss.value.tolist() == pytest.approx([0.5, -1.0, 3.0])
    assert slope(loss, x) == pytest.approx([-0.5, 0.5, -1.0])
    assert loss.stats == {}


def test_correction_weight():
    x = loss_inputs([0.0], [2.0], correction_weight=tensor([0.25]))
    assert slope(reinforce(x), x) == pytest.approx([-0.5])
