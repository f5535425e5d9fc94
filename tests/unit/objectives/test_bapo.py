"""BAPO's surrogate between given bounds (arXiv 2510.18927 algorithm 1)."""

import math

import pytest

from headrace.objectives.bapo import bapo
from headrace.objectives.ppo_clip import ppo_clip
from tests.unit.objectives.tokens import loss_inputs, slope

RATIO = [1.5, 2.5, 0.5, 0.95, 0.7, 2.5, 1.0]
ADVANTAGE = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0]


def test_values_and_gradients():
    x = loss_inputs([math.log(r) for r in RATIO], ADVANTAGE)
    loss = bapo(x, ratio_min=0.9, ratio_max=2.0)
    assert loss.value.tolist() == pytest.approx([-1.5, -2.0, -0.5, 0.95, 0.9, 2.5, 0.0])
    assert slope(loss, x) == pytest.approx([-1.5, 0.0, -0.5, 0.95, 0.0, 2.5, 0.0])
    assert loss.stats["clip_low"].tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert loss.stats["clip_high"].tolist() == [0, 1, 0, 0, 0, 0, 0]


def test_with_symmetric_bounds_it_is_ppo_clip():
    x = loss_inputs([math.log(r) for r in RATIO], ADVANTAGE)
    ours, ppo = (
        bapo(x, ratio_min=0.8, ratio_max=1.2, dual_clip=2.0),
        ppo_clip(x, clip_low=0.2, clip_high=0.2, dual_clip=2.0),
    )
    assert ours.value.tolist() == pytest.approx(ppo.value.tolist())
    assert ours.stats["dual_clip"].tolist() == [0, 0, 0, 0, 0, 1, 0]
