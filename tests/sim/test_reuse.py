"""Groups that train in several steps: the bound on lag, the counts and the end of a run hold as without reuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import LagViolation
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.pipeline.sim.checks import max_lag_trained, violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate

# Sampling is slow: without reuse the trainer would wait. A generator that keeps up fills all steps up to the bound with
# new groups, and each then trains at its deadline.
SLOW_GENERATOR = Scenario(steps=20, max_ready_batches=20, num_slots=4, token_s=0.1, train_s=0.2, max_lag=4)
FAST_GENERATOR = Scenario(steps=20, max_ready_batches=20, num_slots=100, token_s=0.01, max_lag=4)


def uses_of(*parts: Outcome) -> Counter[int]:
    return Counter(a for part in parts for a in part.history.trained_admissions)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_uses", [2, 3])
def test_a_group_trains_at_most_so_often_and_the_worst_lag_is_the_bound(max_uses: int, seed: int) -> None:
    outcome = simulate(replace(SLOW_GENERATOR, max_uses=max_uses, seed=seed))
    assert violations(outcome) == []
    assert outcome.finished
    assert outcome.left == ()
    assert max(uses_of(outcome).values()) == max_uses
    assert max_lag_trained(outcome) == SLOW_GENERATOR.max_lag
    assert outcome.history.drops == []


def test_a_generator_that_keeps_up_leaves_no_room() -> None:
    """After the first steps, whose groups were younger than the bound."""
    outcome = simulate(replace(FAST_GENERATOR, max_uses=3))
    assert violations(outcome) == []
    assert {use for t in outcome.history.steps if t.batch.step > 4 for use in t.uses} == {0}


def test_putting_groups_back_without_looking_at_the_others_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def naive(self: Ledger, entries: Iterable[Outstanding], room: int | None = None) -> list[Outstanding]:
        again = [replace(e, step=None) for e in entries if self.deadline(e) >= self.next_step][:room]
        for entry in again:
            self.admit(entry)
        return again

    scenario = replace(FAST_GENERATOR, max_uses=3, num_generators=2)
    assert violations(simulate(scenario)) == []
    monkeypatch.setattr(Ledger, "put_back", naive)
    assert isinstance(simulate(scenario).error, LagViolation)


def test_reuse_asks_for_fewer_groups_and_ends_sooner_when_sampling_is_slow() -> None:
    """60 places in steps: 60 groups without reuse, 30 when every group trains twice."""
    once, twice = (simulate(replace(SLOW_GENERATOR, max_uses=n)) for n in (1, 2))
    assert (once.num_admitted, len(once.history.trained_admissions)) == (60, 60)
    assert len(twice.history.trained_admissions) == 60
    assert twice.num_admitted <= 35  # a few deadlines come before the second use
    assert twice.end_s < 0.7 * once.end_s


def test_a_bound_of_0_leaves_no_room_for_a_second_step() -> None:
    outcome = simulate(replace(FAST_GENERATOR, max_lag=0, max_uses=3))
    assert violations(outcome) == []
    assert set(uses_of(outcome).values()) == {1}


def test_groups_without_signal_are_not_used_again() -> None:
    outcome = simulate(replace(SLOW_GENERATOR, zero_variance="shrink", max_uses=2))
    assert violations(outcome) == []
    uses = uses_of(outcome)
    signal = {g.admission: g.signal for t in outcome.history.steps for g in t.groups}
    assert {uses[a] for a, teaches in signal.items() if not teaches} == {1}
    assert max(uses[a] for a, teaches in signal.items() if teaches) == 2


@pytest.mark.parametrize("at_bound", ["wait", "drop"])
@pytest.mark.parametrize("stop_s", [3.8, 6.0, 9.3, 18.5])
def test_uses_go_on_over_a_resume(at_bound: str, stop_s: float, tmp_path: Path) -> None:
    scenario = replace(SLOW_GENERATOR, max_uses=3, at_bound=at_bound, stall_prob=0.1)
    first = simulate(replace(scenario, stop_at_s=stop_s), folder=tmp_path)
    resume = CheckpointStore(tmp_path, keep=2).newest()
    second = simulate(scenario, folder=tmp_path, resume=resume)
    assert violations(first, second) == []
    assert second.finished
    assert max(uses_of(first, second).values()) == 3


def test_a_resume_with_fewer_uses_or_a_lower_bound_forgets_what_it_may_not_use(tmp_path: Path) -> None:
    scenario = replace(SLOW_GENERATOR, max_uses=3)
    first = simulate(replace(scenario, stop_at_s=6.5), folder=tmp_path)
    used = {e.admission for e in first.left if e.uses}
    assert used
    resume = CheckpointStore(tmp_path, keep=2).newest()
    for change in ({"max_uses": 1}, {"max_lag": 0}):
        second = simulate(replace(scenario, **change), folder=tmp_path / str(change), resume=resume)  # type: ignore[arg-type]
        assert second.finished
        assert not used & set(second.history.trained_admissions)
        assert len(second.history.steps) == 20 - first.version


def test_a_falling_bound_ends_reuse() -> None:
    outcome = simulate(replace(SLOW_GENERATOR, max_uses=2, falls=((10, 0),)))
    assert violations(outcome) == []
    assert {use for t in outcome.history.steps if t.batch.step >= 10 for use in t.uses} == {0}
    assert {use for t in outcome.history.steps if t.batch.step < 10 for use in t.uses} == {0, 1}
