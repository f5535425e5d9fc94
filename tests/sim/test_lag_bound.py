"""The bound on lag is reached exactly and never passed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from headrace.errors import LagViolation
from headrace.pipeline.gate import GateDecision
from headrace.pipeline.ledger import Ledger
from headrace.pipeline.seeds import derive_seed
from headrace.pipeline.sim.chance import Chance
from headrace.pipeline.sim.checks import max_lag_trained, violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import simulate

# Sampling takes a fraction of a training step and nothing limits finished groups but the bound itself.
FAST_GENERATOR = Scenario(steps=20, max_ready_batches=20, num_slots=100, token_s=0.01)
SLOW_TAKERS = replace(FAST_GENERATOR, num_generators=3, take_s=(0.05, 0.8, 2.5), num_slots=30)


@dataclass(frozen=True)
class NaiveGate:
    """The rule that is off by one: a number of groups, whatever the generators sample from."""

    total_steps: int
    max_lag: int

    def decide(self, ledger: Ledger, acked_version: int) -> GateDecision:
        few = len(ledger) < (self.max_lag + 1) * ledger.groups_per_step
        return GateDecision(open=few and ledger.target_step < self.total_steps)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_lag", [0, 1, 2, 4, 8])
def test_a_fast_generator_makes_the_worst_lag_exactly_the_bound(max_lag: int, seed: int) -> None:
    outcome = simulate(replace(FAST_GENERATOR, max_lag=max_lag, seed=seed))
    assert violations(outcome) == []
    assert outcome.finished
    assert max_lag_trained(outcome) == max_lag
    assert outcome.history.drops == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_lag", [0, 1, 2, 4, 8])
def test_generators_that_take_weights_at_their_own_pace_keep_the_bound(max_lag: int, seed: int) -> None:
    outcome = simulate(replace(SLOW_TAKERS, max_lag=max_lag, seed=seed))
    assert violations(outcome) == []
    assert outcome.finished
    assert max_lag_trained(outcome) == max_lag


@pytest.mark.parametrize("max_lag", [0, 1, 2, 4, 8])
def test_the_naive_gate_breaks_the_bound_by_one_in_the_same_scenario(max_lag: int) -> None:
    scenario = replace(SLOW_TAKERS, max_lag=max_lag, take_s=(0.5,))
    assert violations(simulate(scenario)) == []
    outcome = simulate(scenario, alter=lambda parts: replace(parts, gate=NaiveGate(scenario.steps, max_lag)))
    assert isinstance(outcome.error, LagViolation)
    assert f"lag {max_lag + 1}" in str(outcome.error)


def test_max_lag_0_is_strictly_synchronous() -> None:
    outcome = simulate(replace(FAST_GENERATOR, max_lag=0, num_generators=2, take_s=(0.05, 1.0), groups_per_step=4))
    assert violations(outcome) == []
    for trained in outcome.history.steps:
        versions = {int(v) for g in trained.groups for r in g.rollouts for v in r.policy_version[r.trainable]}
        assert versions == {trained.batch.step}  # every token of the very weights that are trained
    # Groups are consumed in the order of the prompts: the same order as a plain loop's.
    assert outcome.history.trained_admissions == list(range(80))


@pytest.mark.parametrize("at_bound", ["wait", "drop"])
@pytest.mark.parametrize("seed", range(5))
def test_a_bound_that_falls_during_the_run_is_kept_at_every_step(seed: int, at_bound: str) -> None:
    falling = replace(SLOW_TAKERS, max_lag=8, steps=30, falls=((14, 4), (18, 1), (22, 0)), at_bound=at_bound, seed=seed)
    outcome = simulate(falling)
    assert violations(outcome) == []
    assert outcome.finished
    by_step = {t.batch.step: max(t.batch.step - g.oldest_version for g in t.groups) for t in outcome.history.steps}
    assert max(by_step[s] for s in range(14)) > 4  # the wide bound was used
    assert max(by_step[s] for s in range(22, 30)) == 0


def test_waiting_for_the_stragglers_starves_nobody() -> None:
    slow = replace(FAST_GENERATOR, max_lag=2, stall_prob=0.1, stall_s=15.0)
    outcome = simulate(slow)
    assert violations(outcome) == []
    assert outcome.history.drops == []
    assert sorted(outcome.history.trained_admissions) == list(range(slow.steps * slow.groups_per_step))


def test_dropping_keeps_the_trainer_going_and_reports_what_it_costs() -> None:
    slow = replace(FAST_GENERATOR, max_lag=2, stall_prob=0.1, stall_s=15.0)
    waited, dropped = simulate(slow), simulate(replace(slow, at_bound="drop"))
    assert violations(dropped) == []
    assert dropped.finished
    assert dropped.history.step_times[-1] < 0.8 * waited.history.step_times[-1]
    drops = dropped.history.drops
    assert drops
    assert {d.reason for d in drops} == {"lag"}
    # Each was given up one step before it would have been too old, and never came back.
    assert all(d.entry.admission not in dropped.history.trained_admissions for d in drops)
    assert all(d.step >= d.entry.oldest_version + slow.max_lag for d in drops)


def test_slots_are_refilled_while_a_group_waits_for_its_last_member() -> None:
    """Two slots, groups of two, one completion in ten takes 20 s longer: its partner's slot must not idle meanwhile."""
    narrow = Scenario(
        steps=20, num_slots=2, groups_per_step=1, max_lag=8, max_ready_batches=9, stall_prob=0.1, stall_s=20.0,
        train_s=0.01, length_sigma=0.0, length_median=20, token_s=0.1, verify_s=0.0,
    )  # fmt: skip
    chance = Chance(derive_seed(narrow.seed, "generator-0"))
    stalls = [[chance.uniform("stall", f"train-{g}-{m}/0") < 0.1 for m in range(2)] for g in range(20)]
    both_slots_busy_s = (40 * 2 + 20 * sum(map(sum, stalls))) / 2
    slot_by_group_s = sum(22 if any(pair) else 2 for pair in stalls)
    assert slot_by_group_s > 1.3 * both_slots_busy_s  # there is something to see
    outcome = simulate(narrow)
    assert violations(outcome) == []
    assert outcome.end_s < 1.1 * both_slots_busy_s


def test_slots_are_free_while_a_verifier_works() -> None:
    """20 groups of 2 s on two slots, each judged for about 10 s: 40 s of sampling, not 20 times 12 s."""
    judged = Scenario(
        steps=20, num_slots=2, groups_per_step=1, max_lag=8, max_ready_batches=9,
        train_s=0.01, length_sigma=0.0, length_median=20, token_s=0.1, verify_s=10.0,
    )  # fmt: skip
    outcome = simulate(judged)
    assert violations(outcome) == []
    assert outcome.end_s < 40 + 30


def test_slots_of_dropped_groups_are_free_again() -> None:
    """Four slots, and members that hang are dropped with their groups: each would take its slot with it for good."""
    few = replace(FAST_GENERATOR, steps=60, num_slots=4, groups_per_step=1, max_lag=1, at_bound="drop")
    outcome = simulate(replace(few, stall_prob=0.15, stall_s=40.0, train_s=0.2))
    assert violations(outcome) == []
    assert outcome.finished
    assert sum(not d.entry.finished for d in outcome.history.drops) > 8
    assert outcome.end_s < 150  # about 100; 210 if dropped groups were not cancelled in the generator


def test_slow_prompts_keep_their_share_when_the_trainer_waits_and_are_on_record_when_it_drops() -> None:
    """One prompt in eight hangs for 20 s. Waiting trains them all the same; dropping names each one lost."""
    slow = replace(FAST_GENERATOR, steps=16, max_lag=2, stall_prob=0.06, stall_s=20.0, num_prompts=48)
    waited = simulate(slow)
    assert sorted(waited.history.trained_admissions) == list(range(48))
    outcome = simulate(replace(slow, at_bound="drop"))
    dropped = {d.entry.prompt.prompt_id for d in outcome.history.drops}
    trained = {g.prompt.prompt_id for t in outcome.history.steps for g in t.groups}
    assert dropped
    assert {f"numbers-{i}" for i in range(48)} - trained <= dropped | {e.prompt.prompt_id for e in outcome.left}
