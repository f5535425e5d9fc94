"""Penalties worked out at the ends and in the middle of the stretch that costs."""

import numpy as np
import pytest

from headrace.advantages.group_relative import group_relative
from headrace.curation.overlong import cut_off, overlong_penalty, shaped
from headrace.curation.zero_variance import has_signal
from headrace.packing.loss_weights import token_weights


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(0, 0.0), (16384, 0.0), (16385, -1 / 4096), (18432, -0.5), (20480, -1.0), (20481, -1.0), (99999, -1.0)],
)
def test_twenty_thousand_tokens(length, penalty):
    assert overlong_penalty(length, max_tokens=20480, buffer_tokens=4096) == penalty


@pytest.mark.parametrize(("length", "penalty"), [(50, 0.0), (80, 0.0), (90, -0.5), (100, -1.0), (110, -1.0)])
def test_a_hundred_tokens(length, penalty):
    assert overlong_penalty(length, max_tokens=100, buffer_tokens=20) == penalty


@pytest.mark.parametrize(("length", "penalty"), [(12_000, 0.0), (13_000, -0.5), (14_000, -1.0), (15_000, -1.0)])
def test_the_length_penalty_of_right_answers(length, penalty):
    assert overlong_penalty(length, max_tokens=14_000, buffer_tokens=2_000) == penalty


def test_no_penalty_is_a_plain_zero():
    assert str(overlong_penalty(1, max_tokens=100, buffer_tokens=20)) == "0.0"


def test_the_penalty_joins_the_reward_and_is_named(make_group):
    group = make_group([1.0, 0.0, None], lengths=[90, 100, 100])
    after = shaped(group, max_tokens=100, buffer_tokens=20, factor=2.0)
    assert after.rewards == [0.0, -2.0, None]
    assert [dict(r.verdict.parts) for r in after.rollouts] == [{"overlong": -1.0}, {"overlong": -2.0}, {}]
    assert [r.verdict.passed for r in after.rollouts] == [True, False, False]
    assert group.rewards == [1.0, 0.0, None]


def test_only_right_answers_pay_when_told(make_group):
    after = shaped(make_group([1.0, 0.0], lengths=[90, 100]), max_tokens=100, buffer_tokens=20, only_right=True)
    assert after.rewards == [0.5, 0.0]


def test_the_filter_before_shaping_is_not_the_filter_after(make_group):
    group = make_group([1.0, 1.0], lengths=[10, 100])
    assert not has_signal(group)
    assert has_signal(shaped(group, max_tokens=100, buffer_tokens=20))


def test_a_masked_completion_counts_in_the_group_and_not_in_the_loss(make_group):
    group = make_group([1.0, 0.0, 0.0], lengths=[4, 6, 2], finish=["stop", "length", "stop"])
    counted = [0 if cut_off(r) else r.num_trainable for r in group.rollouts]
    assert counted == [4, 0, 2]
    advantage = group_relative(group.rewards, [0, 0, 0], scale="none")
    assert advantage == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert token_weights("token_mean", counted, [0, 0, 0]) == pytest.approx([1 / 6, 0, 1 / 6])


def test_only_the_token_limit_cuts_off(make_group):
    group = make_group([0.0] * 4, finish=["stop", "length", "interrupted", "abort"])
    assert [cut_off(r) for r in group.rollouts] == [False, True, False, False]


def test_a_batch_cut_off_throughout_trains_nothing(make_group):
    group = make_group([1.0, 0.0], lengths=[3, 3], finish=["length", "length"])
    counted = [0 if cut_off(r) else r.num_trainable for r in group.rollouts]
    assert np.array_equal(token_weights("sample_mean", counted, [0, 0]), [0.0, 0.0])


@pytest.mark.parametrize("buffer", [0, -1, 101])
def test_refuses_a_stretch_that_does_not_fit(buffer):
    with pytest.raises(ValueError, match="buffer_tokens"):
        overlong_penalty(5, max_tokens=100, buffer_tokens=buffer)
