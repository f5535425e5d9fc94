"""SAPO (arXiv 2511.20347): a sigmoid in place of a clip range."""

import math

import pytest

from headrace.objectives.sapo import sapo
from tests.unit.objectives.tokens import loss_inputs, slope


def test_on_policy_values_and_gradients():
    x = loss_inputs([0.0, 0.0, 0.0], [1.0, -1.0, 0.0])
    loss = sapo(x)
    assert loss.value.tolist() == pytest.approx([-2.0, 2 / 1.05, 0.0])
    assert slope(loss, x) == pytest.approx([-1.0, 1.0, 0.0])  # as without a gate
    assert loss.stats["gate"].tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_gate_closes_on_both_sides():
    x = loss_inputs([math.log(3), math.log(3), math.log(0.5)], [1.0, -1.0, 1.0])
    loss = sapo(x, tau_pos=1.0, tau_neg=2.0)
    up, down, below = (1 / (1 + math.exp(-z)) for z in (2.0, 4.0, -0.5))
    assert loss.value.tolist() == pytest.approx([-4 * up, 2 * down, -4 * below])
    shares = [4 * g * (1 - g) for g in (up, down, below)]
    assert loss.stats["gate"].tolist() == pytest.approx(shares)
    assert slope(loss, x) == pytest.approx([-3 * shares[0], 3 * shares[1], -0.5 * shares[2]])
