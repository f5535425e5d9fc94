"""Returns to go and their normal form over the batch, worked out."""

import numpy as np
import pytest

from headrace.advantages.reinforce_pp import reinforce_pp, returns_to_go
from headrace.errors import RecordError


def test_returns_to_go():
    assert returns_to_go([1, 2, 3], [3], gamma=0.5).tolist() == [2.75, 3.5, 3]
    assert returns_to_go([1, 2, 9], [2, 1], gamma=1.0).tolist() == [3, 2, 9]
    assert returns_to_go([1, 2, 9], [0, 2, 0, 1], gamma=1.0).tolist() == [3, 2, 9]


def test_one_token_each_is_the_z_score_of_the_rewards():
    # Mean 3, squares 4 + 1 + 0 + 9 = 14 over 3.
    advantage = reinforce_pp([1, 2, 3, 6], [1, 1, 1, 1], eps=0.0)
    assert advantage == pytest.approx(np.array([-2, -1, 0, 3]) / (14 / 3) ** 0.5, rel=1e-14)


def test_long_rollouts_weigh_more_in_the_mean():
    # Tokens carry 4 4 4 | 0: mean 3, squares 3 + 9 = 12 over 3, deviation 2.
    assert reinforce_pp([4, 0], [3, 1], eps=0.0) == pytest.approx([0.5, 0.5, 0.5, -1.5])


def test_baseline_subtracts_the_group_first():
    # Centred: -1 1 | -2 2; squares 10 over 3.
    advantage = reinforce_pp([1, 3, 10, 14], [1, 1, 1, 1], group=["p", "p", "q", "q"], eps=0.0)
    assert advantage == pytest.approx(np.array([-1, 1, -2, 2]) / (10 / 3) ** 0.5, rel=1e-14)


def test_the_penalty_is_part_of_the_return():
    # Rewards -.5 1 | 0 -1 (coef .5, k1 1 0 | 0 2): to go .5 1 | -1 -1, mean -.125.
    to_go = np.array([0.5, 1.0, -1.0, -1.0])
    advantage = reinforce_pp([1, 0], [2, 2], kl=[1, 0, 0, 2], kl_coef=0.5, eps=0.0)
    deviation = to_go + 0.125
    assert advantage == pytest.approx(deviation / (np.square(deviation).sum() / 3) ** 0.5, rel=1e-14)


def test_equal_rewards_have_nothing_to_say():
    assert reinforce_pp([1, 1, 1], [2, 3, 1]).tolist() == [0.0] * 6


def test_refusals():
    with pytest.raises(RecordError, match="group"):
        reinforce_pp([1, 2], [1, 1], group=[0])
