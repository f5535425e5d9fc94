"""Completions of two requests keep every promise of the pipeline: lag, slots, resumes, drops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.curation.interruption import Interruption
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.generator_pool import GeneratorState
from headrace.pipeline.parts import Parts
from headrace.pipeline.sim.checks import max_lag_trained, violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate
from headrace.records import Completion, GenerationRequest, Rollout
from headrace.tasks.interrupted import Interrupted

RULE = Interruption(low=4, high=12, injected_ids=(21, 22), closing_ids=(), answer_tokens=10)
BASE = Scenario(
    steps=16, num_generators=2, max_lag=3, max_ready_batches=20, num_slots=12, token_s=0.15, take_s=(0.05, 0.9)
)


def interrupting(parts: Parts) -> Parts:
    return replace(parts, assembler=replace(parts.assembler, environment=Interrupted(RULE)))


def rollouts_of(outcome: Outcome) -> list[Rollout]:
    return [r for t in outcome.history.steps for g in t.groups for r in g.rollouts]


def parts_of(rollout: Rollout) -> tuple[Sequence[int], Sequence[int]]:
    """Versions before and after what was put in; () after it when nothing was."""
    mask, budget = rollout.trainable, RULE.budget(rollout.seed)
    first = int(mask.argmax())
    versions = rollout.policy_version[first:]
    return versions[:budget].tolist(), versions[budget + 2 :].tolist()


def test_the_bound_is_kept_over_both_parts() -> None:
    outcome = simulate(BASE, alter=interrupting)
    assert violations(outcome) == []
    assert outcome.finished
    assert outcome.history.drops == []
    assert max_lag_trained(outcome) == 3
    rollouts = rollouts_of(outcome)
    cut = [r for r in rollouts if (r.token_ids == 21).any()]
    assert 20 < len(cut) < len(rollouts) - 10
    assert {r.finish_reason for r in cut} == {"interrupted", "length"}
    assert {r.finish_reason for r in rollouts if not (r.token_ids == 21).any()} == {"stop"}
    newer = 0
    for rollout in cut:
        put_in = np.flatnonzero((rollout.token_ids == 21) | (rollout.token_ids == 22))
        assert not rollout.trainable[put_in].any()
        before, after = parts_of(rollout)
        assert max(before) <= min(after)  # the first part keeps its versions
        newer += max(before) < min(after)
    assert newer > 3  # and weights did come between the two


def test_at_lag_0_both_parts_are_of_the_weights_that_are_trained() -> None:
    outcome = simulate(replace(BASE, max_lag=0), alter=interrupting)
    assert violations(outcome) == []
    for trained in outcome.history.steps:
        versions = {int(v) for g in trained.groups for r in g.rollouts for v in r.policy_version[r.trainable]}
        assert versions == {trained.batch.step}


def test_an_attempt_keeps_its_place_between_its_two_requests() -> None:
    """One slot and groups of one: were the place free for a moment, a second group would be admitted into it."""
    narrow = replace(
        BASE, steps=12, groups_per_step=1, group_size=1, num_generators=1, num_slots=1, max_lag=8, length_sigma=0.0,
        length_median=40, train_s=0.01, verify_s=0.0,
    )  # fmt: skip
    most: list[int] = []

    def watched(parts: Parts) -> Parts:
        request = parts.pool.request

        def requesting(state: GeneratorState, what: GenerationRequest) -> asyncio.Future[Completion]:
            answer = request(state, what)
            most.append(state.num_policy)
            return answer

        parts.pool.request = requesting  # type: ignore[method-assign]
        return interrupting(parts)

    outcome = simulate(narrow, alter=watched)
    assert violations(outcome) == []
    assert all((r.token_ids == 21).any() for r in rollouts_of(outcome))
    assert len(most) == 24
    assert set(most) == {1}


def test_dropped_groups_are_cancelled_in_either_part() -> None:
    hanging = replace(BASE, at_bound="drop", max_lag=1, stall_prob=0.1, stall_s=15.0)
    outcome = simulate(hanging, alter=interrupting)
    assert violations(outcome) == []
    assert outcome.finished
    assert len(outcome.history.drops) > 3


def test_a_resumed_run_interrupts_the_same_completions_at_the_same_places(tmp_path: Path) -> None:
    first = simulate(replace(BASE, stop_at_s=6.0), folder=tmp_path, alter=interrupting)
    checkpoint = CheckpointStore(tmp_path, keep=2).newest()
    second = simulate(BASE, folder=tmp_path, resume=checkpoint, alter=interrupting)
    assert violations(first, second) == []
    assert second.finished
    again = {e.admission for e in first.left if not e.finished}
    whole = {r.rollout_id: r for r in rollouts_of(simulate(BASE, alter=interrupting))}
    reissued = [r for r in rollouts_of(second) if int(r.group_id.removeprefix("train-")) in again]
    assert len(reissued) >= 4
    for rollout in reissued:
        np.testing.assert_array_equal(rollout.token_ids, whole[rollout.rollout_id].token_ids)
        np.testing.assert_array_equal(rollout.trainable, whole[rollout.rollout_id].trainable)
