"""GMPO (arXiv 2507.20673): log ratios are clipped token by token before their mean is taken."""

import math

import pytest

from headrace.objectives.gmpo import gmpo
from tests.unit.objectives.tokens import loss_inputs, slope


def test_positive_advantage_cuts_from_above_only():
    x = loss_inputs([1.0, -1.0, 0.1], [2.0] * 3)
    loss = gmpo(x)
    ratio = math.exp((0.4 - 1.0 + 0.1) / 3)
    assert loss.value.tolist() == pytest.approx([-2 * ratio] * 3)
    assert slope(loss, x) == pytest.approx([0.0, -2 * ratio, -2 * ratio])
    assert loss.stats["clip_high"].tolist() == [1, 0, 0]
    assert loss.stats["clip_low"].tolist() == [0, 0, 0]


def test_negative_advantage_cuts_from_below_only():
    x = loss_inputs([1.0, -1.0, 0.1], [-2.0] * 3)
    loss = gmpo(x)
    ratio = math.exp((1.0 - 0.4 + 0.1) / 3)
    assert loss.value.tolist() == pytest.approx([2 * ratio] * 3)
    assert slope(loss, x) == pytest.approx([2 * ratio, 0.0, 2 * ratio])
    assert loss.stats["clip_low"].tolist() == [0, 1, 0]


def test_without_clipping_it_is_the_geometric_mean_of_the_ratios():
    loss = gmpo(loss_inputs([math.log(2), math.log(8)], [1.0, 1.0]), clip_low=9.0, clip_high=9.0)
    assert loss.value.tolist() == pytest.approx([-4.0, -4.0])


def test_mean_over_sequences_does_not_depend_on_how_they_are_split():
    losses = [0.2, 0.4, 0.9, 0.1, 0.3, 0.5, 0.7, 0.9]
    for parts in (1, 2, 4, 8):
        size = 8 // parts
        total = sum(
            (gmpo(loss_inputs([0.0] * size, [-v for v in losses[i : i + size]], segment=range(size))).value / 8).sum()
            for i in range(0, 8, size)
        )
        assert total.item() == pytest.approx(0.5)
