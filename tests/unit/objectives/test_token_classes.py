import math

import pytest
import torch

from headrace.objectives.token_classes import entropy_covariance, token_class_shares
from tests.unit.objectives.tokens import tensor


def test_four_shares_leave_out_tokens_without_advantage():
    logprob = tensor([0.1, 0.2, 0.3, 0.4, 0.9, 0.5]).log()
    shares = token_class_shares(logprob, tensor([1.0, -1.0, -1.0, 1.0, 0.0, 1.0]))
    # Median of .1 .2 .3 .4 .5 is .3.
    assert shares == pytest.approx(
        {
            "p_split": 0.3,
            "low_prob_low_adv": 0.2,
            "low_prob_high_adv": 0.2,
            "high_prob_low_adv": 0.2,
            "high_prob_high_adv": 0.4,
        }
    )


def test_a_fixed_split():
    shares = token_class_shares(tensor([0.1, 0.2, 0.3, 0.4]).log(), tensor([1.0, 1.0, -1.0, 1.0]), p_split=0.35)
    assert shares["low_prob_high_adv"] == 0.5
    assert sum(share for name, share in shares.items() if name != "p_split") == pytest.approx(1.0)


def test_no_token_with_an_advantage():
    assert token_class_shares(tensor([-1.0]), tensor([0.0])) == {}


def test_clipped_tokens_count_as_without_advantage():
    logprob = tensor([math.log(0.7)] * 7 + [math.log(0.2)] * 2 + [math.log(0.1)])
    advantage = tensor([1.0] * 7 + [-0.5] * 2 + [0.2])
    assert entropy_covariance(logprob, advantage, torch.zeros(10)) == pytest.approx(0.362347, abs=1e-6)
    clipped = tensor([0.0] * 7 + [1.0] * 3)  # left: A = 1 on the likeliest, 0 elsewhere
    mean = 0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1)
    assert entropy_covariance(logprob, advantage, clipped) == pytest.approx(0.7 * (math.log(0.7) - mean))


def test_no_tokens():
    assert entropy_covariance(tensor([]), tensor([]), tensor([])) is None
