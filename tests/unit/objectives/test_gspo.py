"""GSPO (arXiv 2507.18071): the ratio of a sequence is the geometric mean of its tokens' ratios."""

import math

import pytest

from headrace.objectives.gspo import gspo
from tests.unit.objectives.tokens import loss_inputs, slope


@pytest.mark.parametrize(
    ("log_ratio", "ratio"),
    [([0.3, -0.1, 0.4], 1.221403), ([0.6, 0.0], 1.349859), ([0.2, -0.5, 0.1], 0.935507)],
)
def test_ratio_is_one_number_a_sequence(log_ratio, ratio):
    loss = gspo(loss_inputs(log_ratio, [1.0] * len(log_ratio)), clip_low=0.9, clip_high=0.9)
    assert loss.stats["ratio"].tolist() == pytest.approx([ratio] * len(log_ratio), abs=1e-6)
    assert loss.value.tolist() == pytest.approx([-ratio] * len(log_ratio), abs=1e-6)


def test_sequences_do_not_leak_into_each_other():
    x = loss_inputs([0.6, 5.0, 0.0, -4.0], [1.0, 0.0, 1.0, 0.0], segment=[3, 1, 3, 1])
    loss = gspo(x, clip_low=0.5, clip_high=0.5)
    assert loss.stats["ratio"].tolist() == pytest.approx([math.exp(0.3), math.exp(0.5)] * 2)
    assert slope(loss, x) == pytest.approx([-math.exp(0.3), 0.0, -math.exp(0.3), 0.0])


def test_known_mean_of_three_tokens():
    x = loss_inputs([math.log(0.5), 0.0, math.log(1.5)], [1.0, -1.0, 2.0])
    loss = gspo(x, clip_low=0.2, clip_high=0.2)
    assert loss.stats["ratio"][0].item() == pytest.approx(0.75 ** (1 / 3))
    assert loss.value.mean().item() == pytest.approx(-0.6057, abs=5e-5)


def test_mean_ratio_over_two_sequences_is_not_a_sum():
    x = loss_inputs([math.log(0.5), 0.0], [1.0, 1.0], segment=[0, 1])
    assert gspo(x).stats["ratio"].mean().item() == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "low", "high"),
    [(0.0005, 1.0, 0, 1), (0.0005, -1.0, 0, 0), (-0.0004, -1.0, 1, 0), (-0.0004, 1.0, 0, 0), (0.0003, 1.0, 0, 0)],
)
def test_clipped_sequences_lose_their_gradient_and_are_counted_by_token(log_ratio, advantage, low, high):
    x = loss_inputs([2 * log_ratio, 0.0], [advantage] * 2)
    loss = gspo(x)  # the paper's 3e-4 and 4e-4
    assert loss.stats["clip_low"].tolist() == [low] * 2
    assert loss.stats["clip_high"].tolist() == [high] * 2
    expected = 0.0 if low or high else -advantage * math.exp(log_ratio)
    assert slope(loss, x) == pytest.approx([expected] * 2)


def test_token_form_has_the_same_values_and_gradients_where_the_advantage_is_constant():
    log_ratio, advantage, segment = [0.1, -0.3, 0.2, 0.05, -0.4], [1.5] * 3 + [-0.5] * 2, [0, 0, 0, 1, 1]
    x = loss_inputs(log_ratio, advantage, segment=segment)
    plain, token = (gspo(x, clip_low=0.2, clip_high=0.2, token_form=form) for form in (False, True))
    assert token.value.tolist() == pytest.approx(plain.value.tolist())
    assert slope(token, x) == pytest.approx(slope(plain, x))
    assert token.stats["ratio"].tolist() == plain.stats["ratio"].tolist()


def test_token_form_keeps_each_tokens_own_advantage():
    x = loss_inputs([0.1, 0.1], [1.0, -2.0])
    wide = {"clip_low": 0.5, "clip_high": 0.5}
    s = math.exp(0.1)
    assert slope(gspo(x, **wide), x) == pytest.approx([s / 2, s / 2])
    assert slope(gspo(x, **wide, token_form=True), x) == pytest.approx([-s, 2 * s])
