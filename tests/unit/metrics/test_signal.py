"""Counts by hand: what of a batch teaches, and how hard its prompts are."""

import dataclasses

import numpy as np
import pytest

from headrace.advantages.group_relative import with_advantages
from headrace.metrics.names import METRICS
from headrace.metrics.signal import advantage_figures, effective_fracs, pass_rate_histogram
from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions


def group_of(rewards, *, signal=True, lengths=None):
    prompt = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([1], np.int32), row={})
    rollouts = []
    for member, reward in enumerate(rewards):
        n = lengths[member] if lengths else 2
        completion = Completion(
            request_id="",
            token_ids=np.full(n, 2, np.int32),
            logprob=np.zeros(n, np.float32),
            policy_version=np.zeros(n, np.int32),
            finish_reason="stop",
        )
        rollout = rollout_from_completions(
            prompt, completion, rollout_id=str(member), group_id="g", seed=0, temperature=1.0
        )
        verdict = Verdict(reward=reward, passed=reward == 1, error="grader broke" if reward is None else None)
        rollouts.append(dataclasses.replace(rollout, verdict=verdict))
    return Group(group_id="g", prompt=prompt, admission=0, rollouts=tuple(rollouts), signal=signal)


def test_groups_and_rollouts_that_teach():
    # 1 0 .5: the middle one has no advantage. 1 1: nothing. Blanked: nothing. 1 ? 0: the unjudged one has none.
    groups = [
        group_of([1.0, 0.0, 0.5]),
        group_of([1.0, 1.0]),
        group_of([1.0, 1.0], signal=False),
        group_of([1.0, None, 0.0]),
    ]
    fracs = effective_fracs(with_advantages(groups, mean="group", scale="none"))
    assert fracs == {"rollout/effective_group_frac": 0.75, "rollout/effective_frac": 0.4}


def test_a_rollout_without_a_token_teaches_nothing():
    groups = with_advantages([group_of([1.0, 0.0], lengths=[0, 3])], mean="group", scale="none")
    assert effective_fracs(groups)["rollout/effective_frac"] == 0.5


def test_groups_without_advantages_teach_nothing_yet():
    assert effective_fracs([group_of([1.0, 0.0])])["rollout/effective_frac"] == 0.0


@pytest.mark.parametrize(
    ("passes", "n", "name"),
    [
        (0, 8, "none"),
        (1, 8, "q1"),
        (2, 8, "q1"),
        (3, 8, "q2"),
        (4, 8, "q2"),
        (5, 8, "q3"),
        (6, 8, "q3"),
        (7, 8, "q4"),
        (8, 8, "all"),
        (3, 10, "q2"),
        (1, 100, "q1"),
        (99, 100, "q4"),
        (1, 1, "all"),
    ],
)
def test_where_a_pass_rate_falls(passes, n, name):
    histogram = pass_rate_histogram([group_of([1.0] * passes + [0.0] * (n - passes))])
    assert {key for key, share in histogram.items() if share} == {f"rollout/pass_rate_{name}_frac"}


def test_shares_of_the_histogram_are_of_judged_prompts():
    groups = [group_of(r) for r in ([1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, None], [None, None])]
    assert pass_rate_histogram(groups) == {
        "rollout/pass_rate_none_frac": 0.25,
        "rollout/pass_rate_q1_frac": 0.0,
        "rollout/pass_rate_q2_frac": 0.25,
        "rollout/pass_rate_q3_frac": 0.0,
        "rollout/pass_rate_q4_frac": 0.0,
        "rollout/pass_rate_all_frac": 0.5,
    }


def test_advantages():
    figures = advantage_figures([-1.0, 1.0, 3.0, -3.5])
    assert figures == {"loss/advantage_abs_mean": 2.125, "loss/advantage_outlier_frac": 0.25}


def test_over_nothing_there_is_no_figure():
    assert effective_fracs([]) == pass_rate_histogram([]) == advantage_figures([]) == {}
    assert pass_rate_histogram([group_of([None])]) == {}


def test_every_figure_has_its_name():
    groups = with_advantages([group_of([1.0, 0.0])], mean="group", scale="group")
    assert {*effective_fracs(groups), *pass_rate_histogram(groups), *advantage_figures([1.0])} <= set(METRICS)
