"""The article form of BAPO: a weight between positive and negative tokens (worked-out values)."""

import math

import pytest

from headrace.objectives.bapo_balanced import balance_weight, balanced_clip
from headrace.objectives.ppo_clip import ppo_clip
from tests.unit.objectives.tokens import loss_inputs, slope, update_tokens

RANGE = {"ratio_min": 0.8, "ratio_max": 1.2}
FIFTH = update_tokens([1.0, 1.0], [0.2, -0.8])  # raw share .2


@pytest.mark.parametrize(
    ("mode", "balance", "share"),
    [("restore", 0.7773, 0.466), ("printed", 0.2227, 0.067), ("exact", 0.36 / 0.47, 0.45)],
)
def test_a_share_below_its_target(mode, balance, share):
    figures = balance_weight(FIFTH, **RANGE, target=0.45, beta=5.0, mode=mode)
    assert figures.values["balance"] == pytest.approx(balance, abs=5e-5)
    assert figures.stats["positive_share"] == pytest.approx(share, abs=5e-4)
    assert figures.stats["positive_share_raw"] == pytest.approx(0.2)


def test_only_tokens_inside_the_bounds_count_towards_the_share():
    tokens = update_tokens([1.1, 1.3, 0.5, 0.9, 0.7, 3.0], [1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    figures = balance_weight(tokens, **RANGE)
    assert figures.stats["positive_share_raw"] == pytest.approx(1.6 / (1.6 + 3.9))


@pytest.mark.parametrize("share", [0.3, 0.4, 0.5, 0.6])
def test_slope_that_holds_the_share(share):
    tokens = update_tokens([1.0, 1.0], [share, share - 1])
    weighted = balance_weight(tokens, **RANGE, target=0.45, beta=1 / (0.45 * 0.55)).stats["positive_share"]
    assert 0.43 <= weighted <= 0.46


def test_at_its_target_nothing_is_weighted():
    tokens = update_tokens([1.0, 1.0], [0.45, -0.55])
    assert balance_weight(tokens, **RANGE).values["balance"] == pytest.approx(0.5)


@pytest.mark.parametrize("mode", ["restore", "printed", "exact"])
def test_one_sided_and_empty_updates_have_a_weight(mode):
    for advantage in ([1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]):
        figures = balance_weight(update_tokens([1.0, 1.0], advantage), **RANGE, mode=mode)
        assert 0 < figures.values["balance"] < 1
    assert balance_weight(update_tokens([], []), **RANGE, mode=mode).stats["positive_share_raw"] == 0.5


def test_values_and_gradients():
    ratio, advantage = [1.1, 1.3, 0.5, 0.9, 0.7, 3.0, 1.0], [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.0]
    x = loss_inputs([math.log(r) for r in ratio], advantage)
    loss = balanced_clip(x, **RANGE, balance=0.75)
    expected = [-1.65, 0.0, -0.75, 0.45, 0.0, 1.5, 0.0]
    assert loss.value.tolist() == pytest.approx(expected)
    assert slope(loss, x) == pytest.approx(expected)
    assert loss.stats["clip_high"].tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert loss.stats["clip_low"].tolist() == [0, 0, 0, 0, 1, 0, 0]


def test_a_weight_of_one_half_has_the_gradient_of_ppo_clip():
    ratio, advantage = [1.1, 1.3, 0.5, 0.9, 0.7, 3.0], [1.0, 2.0, 3.0, -1.0, -2.0, -3.0]
    x = loss_inputs([math.log(r) for r in ratio], advantage)
    ours, ppo = balanced_clip(x, **RANGE, balance=0.5), ppo_clip(x, clip_low=0.2, clip_high=0.2)
    assert slope(ours, x) == pytest.approx(slope(ppo, x))
