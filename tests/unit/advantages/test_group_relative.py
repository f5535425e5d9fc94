"""Worked-out advantages; NaN is a rollout nobody could judge."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.advantages.group_relative import group_relative, with_advantages
from headrace.errors import RecordError
from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions

NAN = float("nan")
MEANS, SCALES = ("none", "group", "leave_one_out", "batch"), ("none", "group", "batch", "raw_batch")


def test_grpo():
    assert group_relative([1, 2, 3], [0, 0, 0]) == pytest.approx([-1 / (1 + 1e-6), 0, 1 / (1 + 1e-6)], rel=1e-14)


def test_standard_deviation_is_the_unbiased_one_unless_asked():
    unbiased = group_relative([0, 1], [7, 7], eps=0.0)
    biased = group_relative([0, 1], [7, 7], eps=0.0, group_ddof=0)
    assert unbiased == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert biased == pytest.approx([-1, 1])


def test_dr_grpo_centres_only():
    assert group_relative([1, 3, 10, 14], list("ppqq"), scale="none") == pytest.approx([-1, 1, -2, 2])


def test_leave_one_out():
    advantage = group_relative([1, 3, 2, 4, 6], [0, 0, 1, 1, 1], mean="leave_one_out", scale="none")
    assert advantage == pytest.approx([-2, 2, -3, 0, 3])


def test_batch_scale_is_the_spread_of_centred_rewards():
    # Centred: -.5 .5 | -2 2; squares sum to 8.5, over 4 rewards (ddof 0). The raw rewards' spread is another number.
    advantage = group_relative([0, 1, 10, 14], [0, 0, 1, 1], scale="batch")
    std = (8.5 / 4) ** 0.5
    assert advantage == pytest.approx(np.array([-0.5, 0.5, -2, 2]) / (std + 1e-6))


def test_raw_batch_scale_is_the_spread_of_the_rewards_themselves():
    # Rewards 0 1 10 14: mean 6.25, squared deviations 39.0625 + 27.5625 + 14.0625 + 60.0625 = 140.75, over 3 (ddof 1).
    rewards, group = [0, 1, 10, 14], [0, 0, 1, 1]
    raw = group_relative(rewards, group, scale="raw_batch", eps=1e-4)
    assert raw == pytest.approx(np.array([-0.5, 0.5, -2, 2]) / ((140.75 / 3) ** 0.5 + 1e-4), rel=1e-14)
    biased = group_relative(rewards, group, scale="raw_batch", batch_ddof=0, eps=0.0)
    assert biased == pytest.approx(np.array([-0.5, 0.5, -2, 2]) / (140.75 / 4) ** 0.5, rel=1e-14)


def test_batch_scale_takes_another_ddof_when_told():
    advantage = group_relative([0, 1, 10, 14], [0, 0, 1, 1], scale="batch", batch_ddof=1, eps=0.0)
    assert advantage == pytest.approx(np.array([-0.5, 0.5, -2, 2]) / (8.5 / 3) ** 0.5, rel=1e-14)


def test_batch_scale_does_not_decide_which_groups_have_signal():
    # p is all right; the batch as a whole still has a spread (three rewards of 1, one of 0).
    advantage = group_relative([1, 1, 0, 1], ["p", "p", "q", "q"], scale="batch", eps=0.0)
    assert advantage[:2].tolist() == [0.0, 0.0]
    assert advantage[2:] == pytest.approx([-(2**0.5), 2**0.5])


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("scale", ["batch", "raw_batch"])
def test_a_batch_without_spread_gives_exactly_zero(mean, scale):
    assert group_relative([0.7] * 6, [0, 0, 0, 1, 1, 1], mean=mean, scale=scale).tolist() == [0.0] * 6
    assert group_relative([NAN, 1.0], [0, 1], mean=mean, scale=scale).tolist() == [0.0, 0.0]


def test_equal_groups_of_any_size_keep_their_advantage_when_rollouts_are_shuffled():
    rewards, group = np.array([0.0, 1, 1, 2, 5, 3, 3]), np.array([0, 0, 0, 1, 1, 2, 2])
    order = np.array([6, 2, 4, 0, 3, 5, 1])
    for mean in MEANS:
        for scale in SCALES:
            plain = group_relative(rewards, group, mean=mean, scale=scale)
            assert group_relative(rewards[order], group[order], mean=mean, scale=scale) == pytest.approx(plain[order])


def test_shift_and_stretch_of_the_rewards_do_not_matter_to_a_scaled_group():
    plain = group_relative([0, 1, 1, 3], [0] * 4, eps=0.0)
    assert group_relative([5, 7, 7, 11], [0] * 4, eps=0.0) == pytest.approx(plain)


def test_batch_mean_is_one_baseline_for_all():
    advantage = group_relative([1, 2, 3, 6], [0, 0, 1, 1], mean="batch", scale="batch")
    assert advantage == pytest.approx(np.array([-2, -1, 0, 3]) / (3.5**0.5 + 1e-6))


def test_no_mean_no_scale_is_the_reward():
    assert group_relative([1, 1, -1], [0, 0, 0], mean="none", scale="none").tolist() == [1, 1, -1]


def test_population_deviation_and_another_eps():
    advantage = group_relative([1, 2, 3], [0, 0, 0], group_ddof=0, eps=1e-4)
    assert advantage == pytest.approx(np.array([-1, 0, 1]) / ((2 / 3) ** 0.5 + 1e-4), rel=1e-14)


def test_leave_one_out_of_pairs_and_of_one():
    advantage = group_relative([6, 3, 9, 12, 1], [0, 0, 1, 1, 2], mean="leave_one_out", scale="none")
    assert advantage.tolist() == [3, -3, -3, 3, 0]


@pytest.mark.parametrize(("ddof", "advantage"), [(1, 3.75), (0, 15**0.5)])
def test_one_success_in_sixteen(ddof, advantage):
    found = group_relative([1] + [0] * 15, [0] * 16, group_ddof=ddof, eps=1e-8)
    assert found[0] == pytest.approx(advantage, abs=1e-6)


def test_groups_need_not_be_contiguous():
    assert group_relative([1, 0, 1, 0], ["p1", "p2", "p1", "p2"]).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("mean", ["group", "leave_one_out"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("rewards", [[0.7] * 6, [0.7], [0.5, 0.50000003, 0.5, 0.5], [NAN, 1.0, NAN], [NAN, NAN]])
def test_a_group_without_spread_gives_exactly_zero(mean, scale, rewards):
    assert group_relative(rewards, [0] * len(rewards), mean=mean, scale=scale).tolist() == [0.0] * len(rewards)


def test_unjudged_members_are_in_no_statistic():
    advantage = group_relative([1, NAN, 3, NAN], [0, 0, 0, 0], scale="none")
    assert advantage.tolist() == [-1, 0, 1, 0]
    advantage = group_relative([1, NAN, 2, 3, 10], [0, 0, 0, 0, 1])
    assert advantage == pytest.approx([-1 / (1 + 1e-6), 0, 0, 1 / (1 + 1e-6), 0])
    advantage = group_relative([0, 1, NAN], [0, 0, 0], scale="batch")
    assert advantage == pytest.approx(np.array([-0.5, 0.5, 0]) / (0.5 + 1e-6))


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, -1.0, 0.5, NAN]), st.integers(0, 4)), min_size=1, max_size=30),
    st.sampled_from(MEANS),
    st.sampled_from(SCALES),
)
def test_equals_a_slow_loop(members, mean, scale):
    rewards, groups = (list(part) for part in zip(*members, strict=True))
    fast = group_relative(rewards, groups, mean=mean, scale=scale)
    assert fast == pytest.approx(slow(rewards, groups, mean, scale), rel=1e-12, abs=1e-12)
    assert np.isfinite(fast).all()


def slow(rewards, groups, mean, scale):
    judged = [i for i, r in enumerate(rewards) if r == r]
    batch_mean = sum(rewards[i] for i in judged) / max(1, len(judged))
    centred = {}
    for i in judged:
        mine = [rewards[j] for j in judged if groups[j] == groups[i]]
        others = [rewards[j] for j in judged if groups[j] == groups[i] and j != i]
        baseline = {
            "none": 0.0,
            "group": sum(mine) / len(mine),
            "leave_one_out": sum(others) / len(others) if others else 0.0,
            "batch": batch_mean,
        }[mean]
        centred[i] = rewards[i] - baseline
    result = []
    for i in range(len(rewards)):
        if i not in centred:
            result.append(0.0)
            continue
        mine = [rewards[j] for j in judged if groups[j] == groups[i]]
        flat = len(mine) < 2 or max(mine) - min(mine) <= 1e-6
        if flat and (mean in ("group", "leave_one_out") or scale == "group"):
            result.append(0.0)
            continue
        divisor = 1.0
        if scale == "group":
            divisor = float(np.std(mine, ddof=1)) + 1e-6
        if scale in ("batch", "raw_batch"):
            seen = list(centred.values()) if scale == "batch" else [rewards[j] for j in judged]
            if max(seen) - min(seen) <= 1e-6:
                result.append(0.0)
                continue
            mean_seen = sum(seen) / len(seen)
            total = sum((x - mean_seen) ** 2 for x in seen)
            divisor = (total / (len(seen) if scale == "batch" else len(seen) - 1)) ** 0.5 + 1e-6
        result.append(centred[i] / divisor)
    return result


def test_refusals():
    with pytest.raises(RecordError, match="must be"):
        group_relative([1, 2], [0])
    with pytest.raises(RecordError, match="infinite"):
        group_relative([1, float("inf")], [0, 0])


def group_of(number, rewards, *, signal=True):
    prompt = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([1, 2], np.int32), row={})
    rollouts = []
    for index, reward in enumerate(rewards):
        completion = Completion(
            request_id="",
            token_ids=np.array([3, 4, 5], np.int32),
            logprob=np.zeros(3, np.float32),
            policy_version=np.zeros(3, np.int32),
            finish_reason="stop",
        )
        rollout = rollout_from_completions(
            prompt, completion, rollout_id=f"{number}.{index}", group_id="g", seed=0, temperature=1.0
        )
        rollouts.append(dataclasses.replace(rollout, verdict=Verdict(reward=reward)))
    return Group(group_id=str(number), prompt=prompt, admission=number, rollouts=tuple(rollouts), signal=signal)


def test_groups_get_their_advantage_on_trainable_tokens():
    (group,) = with_advantages([group_of(0, [0.0, None, 2.0])], mean="group", scale="none")
    assert [r.advantage.tolist() for r in group.rollouts] == [[0, 0, -1, -1, -1], [0] * 5, [0, 0, 1, 1, 1]]
    assert group.rollouts[0].advantage.dtype == np.float32


def test_batch_statistics_leave_out_groups_without_signal():
    groups = [group_of(0, [0.0, 1.0]), group_of(1, [1.0, 1.0], signal=False)]
    first, second = with_advantages(groups, mean="group", scale="batch")
    assert first.rollouts[1].advantage[-1] == pytest.approx(0.5 / (0.5 + 1e-6))
    assert not any(r.advantage.any() for r in second.rollouts)
    kept = with_advantages([groups[0], dataclasses.replace(groups[1], signal=True)], mean="group", scale="batch")
    assert kept[0].rollouts[1].advantage[-1] == pytest.approx(0.5 / (0.125**0.5 + 1e-6))
