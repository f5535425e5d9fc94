"""Evaluations are pinned to one version and run beside training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.pipeline.sim.checks import violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import simulate

BASE = Scenario(steps=12, num_generators=2, take_s=(0.05, 0.4), eval_every=3, eval_prompts=8)


def test_evaluations_come_before_during_and_after() -> None:
    outcome = simulate(BASE)
    assert violations(outcome) == []  # which looks at every token's version
    versions = [e.version for _, e in outcome.history.evaluations]
    assert versions[0] == 0
    assert versions[-1] == 12
    assert versions == sorted(versions)
    assert len(versions) == 5  # 0, about 3, 6 and 9, and 12
    assert outcome.history.phases == ["loading model", "evaluating before", "training", "evaluating after"]


def test_training_goes_on_meanwhile_and_policy_versions_stay_apart() -> None:
    slow = replace(BASE, eval_prompts=60)
    outcome = simulate(slow)
    assert violations(outcome) == []
    times, evaluations = outcome.history.step_times, outcome.history.evaluations
    assert any(sum(evaluations[i][0] < t < evaluations[i + 1][0] for t in times) >= 2 for i in range(1, 3))
    without = simulate(replace(slow, eval_every=0))
    started = evaluations[0][0]  # the one before training
    assert times[-1] - started < 1.6 * without.history.step_times[-1]


def test_one_evaluation_waits_while_another_runs_and_no_more() -> None:
    """Evaluations take several steps each and one is due at every step: they follow each other."""
    outcome = simulate(replace(BASE, eval_every=1, eval_prompts=100, num_slots=4))
    assert violations(outcome) == []
    versions = [e.version for _, e in outcome.history.evaluations]
    assert versions[0] == 0
    assert versions[-1] == 12
    assert versions == sorted(set(versions))
    assert len(versions) < 9


def test_two_evaluations_sample_the_same_completions_of_the_same_prompts() -> None:
    first, second = (e for _, e in simulate(BASE).history.evaluations[:2])
    for one, other in zip(first.groups, second.groups, strict=True):
        assert one.prompt.prompt_id == other.prompt.prompt_id
        for mine, theirs in zip(one.rollouts, other.rollouts, strict=True):
            np.testing.assert_array_equal(mine.token_ids, theirs.token_ids)  # scripted tokens depend on the seed alone
            assert mine.seed == theirs.seed
