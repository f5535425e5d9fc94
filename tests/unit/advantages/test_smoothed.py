"""Exponential averages of one-step errors, worked out on three tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.advantages.gae import gae
from headrace.advantages.smoothed import smoothed
from headrace.errors import RecordError

NUMBERS = st.floats(-3, 3, allow_nan=False, width=32)


def test_forward():
    # delta = [1 + .5 * 2 - 4, 2 + .5 * 1 - 2, 3 - 1] = [-2, .5, 2]; halves of the last average and of the new error.
    assert smoothed([1, 2, 3], [4, 2, 1], gamma=0.5, lam=0.5).tolist() == [-1.0, -0.25, 0.875]


def test_backward():
    # From the end: 1, .5 + .25, .375 - 1.
    assert smoothed([1, 2, 3], [4, 2, 1], gamma=0.5, lam=0.5, direction="backward").tolist() == [-0.625, 0.75, 1.0]


def test_no_smoothing_leaves_the_errors():
    for direction in ("forward", "backward"):
        assert smoothed([1, 2, 3], [4, 2, 1], gamma=0.5, lam=0.0, direction=direction).tolist() == [-2, 0.5, 2]


def test_tokens_of_a_tool_are_passed_over():
    mask = [True, False, True, True]
    advantage = smoothed([1, 9, 2, 3], [4, 9, 2, 1], gamma=0.5, lam=0.5, mask=mask)
    assert advantage.tolist() == [-1.0, 0.0, -0.25, 0.875]
    assert smoothed([], [], gamma=0.5, lam=0.5).tolist() == []


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30), st.floats(0, 0.99))
def test_backward_is_gae_without_discount_scaled(tokens, lam):
    reward, value = (list(part) for part in zip(*tokens, strict=True))
    backward = smoothed(reward, value, gamma=1.0, lam=lam, direction="backward")
    assert backward == pytest.approx((1 - lam) * gae(reward, value, gamma=1.0, lam=lam)[0], rel=1e-9, abs=1e-12)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30), st.floats(0, 1), st.floats(0, 1))
def test_equals_a_slow_loop(tokens, gamma, lam):
    average, expected = 0.0, []
    for t, (r, v) in enumerate(tokens):
        after = tokens[t + 1][1] if t + 1 < len(tokens) else 0.0
        average = lam * average + (1 - lam) * (r + gamma * after - v)
        expected.append(average)
    reward, value = zip(*tokens, strict=True)
    assert smoothed(np.array(reward), np.array(value), gamma=gamma, lam=lam) == pytest.approx(expected, abs=1e-12)


def test_refusals():
    with pytest.raises(RecordError, match="direction 'sideways'"):
        smoothed([1], [1], gamma=1.0, lam=0.5, direction="sideways")
    with pytest.raises(RecordError, match="value"):
        smoothed([1, 2], [1], gamma=1.0, lam=0.5)
    with pytest.raises(RecordError, match="mask"):
        smoothed([1], [1], gamma=1.0, lam=0.5, mask=[True, True])
