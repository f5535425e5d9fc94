import dataclasses

import numpy as np
import pytest

from headrace.curation.zero_variance import RULES, count_kinds, has_signal, kind_of
from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions


def group_of(rewards, passed=None):
    prompt = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([1], np.int32), row={})
    completion = Completion(
        request_id="",
        token_ids=np.array([2], np.int32),
        logprob=np.zeros(1, np.float32),
        policy_version=np.zeros(1, np.int32),
        finish_reason="stop",
    )
    rollouts = []
    for index, reward in enumerate(rewards):
        rollout = rollout_from_completions(
            prompt, completion, rollout_id=str(index), group_id="g", seed=0, temperature=1.0
        )
        good = reward == 1 if passed is None else passed[index]
        verdict = Verdict(reward=reward, passed=good, error="grader broke" if reward is None else None)
        rollouts.append(dataclasses.replace(rollout, verdict=verdict))
    return Group(group_id="g", prompt=prompt, admission=0, rollouts=tuple(rollouts))


@pytest.mark.parametrize(
    ("rewards", "kind"),
    [
        ([1.0, 0.0], "signal"),
        ([1.0, 1.0, 1.0], "all_right"),
        ([0.0, 0.0], "all_wrong"),
        ([0.5, 0.50000003, 0.5, 0.5], "all_wrong"),  # a spread below the tolerance is none
        ([1.0], "unjudged"),
        ([1.0, None, None], "unjudged"),
        ([None, None], "unjudged"),
        ([1.0, None, 0.0], "signal"),
        ([1.0, None, 1.0], "all_right"),
    ],
)
def test_kind(rewards, kind):
    group = group_of(rewards)
    assert kind_of(group) == kind
    assert has_signal(group) == (kind == "signal")


def test_equal_credit_with_mixed_verdicts_has_a_name_of_its_own():
    assert kind_of(group_of([0.5, 0.5], passed=[True, False])) == "all_equal"


def test_tolerance_is_an_argument():
    assert not has_signal(group_of([0.5, 0.6]), tolerance=0.2)


def test_counts_split_all_right_from_all_wrong():
    groups = [group_of(r) for r in ([1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, None])]
    counts = count_kinds(groups)
    assert dataclasses.asdict(counts) == {"signal": 1, "all_right": 1, "all_wrong": 2, "all_equal": 0, "unjudged": 1}
    assert counts.zero_variance_frac == pytest.approx(0.8)
    assert count_kinds([]).zero_variance_frac == 0.0


def test_rules():
    flat, live = group_of([1.0, 1.0]), group_of([1.0, 0.0])
    assert all(rule(live) is live for rule in RULES.values())
    assert RULES["keep"](flat) is flat
    assert RULES["refill"](flat) is None
    shrunk = RULES["shrink"](flat)
    assert (shrunk.signal, shrunk.drop_reason) == (False, "all_right")
