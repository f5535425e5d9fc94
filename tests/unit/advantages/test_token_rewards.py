import pytest

from headrace.advantages.token_rewards import batched_token_rewards, token_rewards
from headrace.errors import RecordError


def test_the_score_stands_at_the_last_token():
    assert token_rewards(2.0, 3).tolist() == [0, 0, 2]


def test_every_token_pays_for_leaving_the_reference():
    # k1 of log-probabilities -.5, -1.5 against -1.5, -1: 1 and -.5.
    assert token_rewards(2.0, 2, kl=[1.0, -0.5], coef=0.1) == pytest.approx([-0.1, 2.05])


def test_rollouts_end_to_end():
    rewards = batched_token_rewards([1.0, 5.0, -1.0], [2, 0, 1], kl=[1, 2, 3], coef=0.5)
    assert rewards.tolist() == [-0.5, 0.0, -2.5]
    assert batched_token_rewards([1.0], [0]).tolist() == []


def test_refusals():
    with pytest.raises(RecordError, match=r"kl is \[1\], wanted \[2\]"):
        token_rewards(1.0, 2, kl=[0.1], coef=1.0)
    with pytest.raises(RecordError, match="not finite"):
        token_rewards(float("nan"), 2)
    with pytest.raises(RecordError, match=r"must be \[B\]"):
        batched_token_rewards([1.0], [1, 1])
