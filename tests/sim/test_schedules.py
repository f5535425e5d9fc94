"""What changes during a run: the bound on lag, and the temperature of each group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.curation.lag import LAG_SCHEDULES
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.parts import Parts
from headrace.pipeline.sim.checks import violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate
from headrace.records import Group

# Sampling takes a fraction of a training step: nothing limits finished groups but the bound itself.
FAST = Scenario(steps=40, max_lag=8, max_ready_batches=20, num_slots=100, token_s=0.01)


def worst_by_step(outcome: Outcome) -> list[int]:
    return [max(t.batch.step - g.oldest_version for g in t.groups) for t in outcome.history.steps]


def groups_of(*outcomes: Outcome) -> list[Group]:
    return [g for o in outcomes for t in o.history.steps for g in t.groups]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("take_s", [(0.05,), (0.05, 0.8, 2.5)])
def test_a_bound_halved_in_the_last_fifth_starves_nobody(seed: int, take_s: tuple[float, ...]) -> None:
    """8 becomes 4 at step 32: what was admitted before trains in time, and the new bound is used to the full."""
    bound = LAG_SCHEDULES["final"](8, 4, 40, 0.2)
    scenario = replace(FAST, falls=((32, 4),), seed=seed, take_s=take_s, num_generators=len(take_s))
    assert [bound(s) for s in (31, 32)] == [scenario.lag_schedule()(s) for s in (31, 32)] == [8, 4]
    outcome = simulate(scenario, alter=lambda parts: replace(parts, max_lag=bound))
    assert violations(outcome) == []
    assert outcome.finished
    assert outcome.history.drops == []
    assert sorted(g.admission for g in groups_of(outcome)) == list(range(40 * 3))
    worst = worst_by_step(outcome)
    assert max(worst[:32]) == 8
    assert max(worst[32:]) == 4


def test_a_bound_that_falls_evenly_is_kept_at_every_step() -> None:
    falls = tuple((step, LAG_SCHEDULES["linear"](8, 0, 40, 0.2)(step)) for step in range(40))
    outcome = simulate(replace(FAST, falls=falls))
    assert violations(outcome) == []
    assert outcome.history.drops == []
    worst = worst_by_step(outcome)
    assert all(lag <= bound for lag, (_, bound) in zip(worst, falls, strict=True))
    assert worst[-1] == 0
    assert sorted(g.admission for g in groups_of(outcome)) == list(range(40 * 3))


def test_a_resume_goes_on_with_the_bound_of_its_step(tmp_path: Path) -> None:
    scenario = replace(FAST, falls=((20, 1),))
    first = simulate(replace(scenario, stop_at_s=19.0), folder=tmp_path)
    second = simulate(scenario, folder=tmp_path, resume=CheckpointStore(tmp_path, keep=2).newest())
    assert 10 < first.version < 20
    assert violations(first, second) == []
    assert second.finished


def cooling(parts: Parts) -> Parts:
    return replace(parts, temperature=lambda step: 1.0 - step / 50)


def temperature(group: Group) -> float:
    (only,) = {r.temperature for r in group.rollouts}
    return only


def test_at_lag_0_a_step_trains_completions_of_its_own_temperature() -> None:
    outcome = simulate(replace(FAST, steps=10, max_lag=0), alter=cooling)
    assert violations(outcome) == []
    for trained in outcome.history.steps:
        expected = 1.0 - trained.batch.step / 50
        assert {temperature(g) for g in trained.groups} == {expected}
        assert set(trained.batch.temperature) == {expected}


def test_a_group_has_the_temperature_of_the_step_it_was_admitted_for() -> None:
    """Groups 0 to 2 are for step 0, the next three for step 1: 8 steps are admitted before anything has trained."""
    outcome = simulate(FAST, alter=cooling)
    by_admission = sorted(groups_of(outcome), key=lambda g: g.admission)
    assert [temperature(g) for g in by_admission[:27]] == [1.0 - (i // 3) / 50 for i in range(27)]
    later = [temperature(g) for g in by_admission]
    assert later == sorted(later, reverse=True)


def test_a_reissued_group_keeps_its_temperature(tmp_path: Path) -> None:
    slow = replace(FAST, steps=12, token_s=0.05, num_generators=2, stall_prob=0.3, stall_s=4.0)
    first = simulate(replace(slow, stop_at_s=4.0), folder=tmp_path, alter=cooling)
    again = {e.admission: e.temperature for e in first.left if not e.finished}
    assert len(set(again.values())) > 1

    def other(parts: Parts) -> Parts:
        return replace(parts, temperature=lambda step: 2.0)

    second = simulate(slow, folder=tmp_path, resume=CheckpointStore(tmp_path, keep=2).newest(), alter=other)
    assert violations(first, second) == []
    for group in groups_of(second):
        finished_before = group.admission < first.num_admitted and group.admission not in again
        if not finished_before:
            assert temperature(group) == again.get(group.admission, 2.0)


def test_evaluations_keep_their_own_temperature() -> None:
    outcome = simulate(replace(FAST, steps=6, eval_every=2), alter=cooling)
    assert len(outcome.history.evaluations) > 2
    assert {r.temperature for _, e in outcome.history.evaluations for g in e.groups for r in g.rollouts} == {1.0}
