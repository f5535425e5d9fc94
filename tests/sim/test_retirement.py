"""Prompts that retire while a run goes on: drawn no more, remembered over stops, and a clear end when few are left."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.curation.curated_source import CuratedSource
from headrace.errors import DataError
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.parts import Parts
from headrace.pipeline.sim.chance import Chance
from headrace.pipeline.sim.checks import timeline, violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate

# Half of twelve prompts are solved each time; four completions of two groups show it.
BASE = Scenario(steps=30, num_prompts=12, easy=0.5, retire_after=4, max_lag=2, num_slots=100)


def easy(scenario: Scenario = BASE) -> set[int]:
    """Prompts that are always solved."""
    chance = Chance(scenario.seed)
    return {i for i in range(scenario.num_prompts) if chance.uniform("easy", i) < scenario.easy}


def passes(outcome: Outcome) -> dict[int, list[bool]]:
    """Verdicts by prompt, group by group in the order they were admitted."""
    found: dict[int, list[bool]] = defaultdict(list)
    for group in sorted((g for t in outcome.history.steps for g in t.groups), key=lambda g: g.admission):
        found[group.prompt.index] += [r.verdict is not None and r.verdict.passed for r in group.rollouts]
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_lag", [0, 4])
def test_prompts_that_are_always_solved_retire_and_the_others_stay(seed: int, max_lag: int) -> None:
    outcome = simulate(replace(BASE, seed=seed, max_lag=max_lag))
    assert violations(outcome) == []
    assert outcome.finished
    solved = easy(outcome.scenario)
    late = {g.prompt.index for t in outcome.history.steps[-5:] for g in t.groups}
    assert solved
    assert not late & solved
    assert outcome.history.steps[-1].curation["curation/num_retired"] >= len(solved)
    rights = passes(outcome)
    assert all(sum(rights[index]) == len(rights[index]) <= 2 * (4 + max_lag) for index in solved)
    drawn = {g.prompt.index for t in outcome.history.steps for g in t.groups}
    assert drawn == set(range(12))


def test_groups_filtered_for_zero_variance_are_remembered() -> None:
    """All-right groups never train under 'refill', and are what retires a prompt."""
    outcome = simulate(replace(BASE, zero_variance="refill"))
    assert violations(outcome) == []
    assert outcome.finished
    assert outcome.history.steps[-1].curation["curation/num_retired"] >= len(easy()) == 4
    last = max(d.entry.admission for d in outcome.history.drops if d.entry.prompt.index in easy())
    assert last < 24 + 12  # two groups of each of twelve prompts, and what was under way
    assert outcome.num_admitted > 90


def test_groups_dropped_unfinished_hold_nobody_up() -> None:
    scenario = replace(BASE, at_bound="drop", stall_prob=0.2, stall_s=20.0, max_lag=1, steps=40)
    outcome = simulate(scenario)
    assert violations(outcome) == []
    assert any(d.reason == "lag" and not d.entry.finished for d in outcome.history.drops)
    assert outcome.history.steps[-1].curation["curation/num_retired"] >= len(easy()) == 4


def test_the_reserve_comes_in_as_prompts_retire() -> None:
    outcome = simulate(replace(BASE, reserve_frac=0.5))
    assert violations(outcome) == []
    first, last = (outcome.history.steps[i].curation for i in (0, -1))
    assert (first["curation/num_active"], first["curation/num_reserve"]) == (6, 6)
    assert last["curation/num_reserve"] < 6
    assert last["curation/num_active"] == 12 - last["curation/num_reserve"] - last["curation/num_retired"]


def test_a_set_that_gets_too_small_ends_the_run_with_its_checkpoint(tmp_path: Path) -> None:
    """Every prompt is solved: after two groups of each, two of three prompts are left for steps of three groups."""
    scenario = replace(BASE, num_prompts=6, easy=1.0)
    outcome = simulate(scenario, folder=tmp_path)
    assert isinstance(outcome.error, DataError)
    assert "prompts are left to train on and a step needs 3" in str(outcome.error)
    assert outcome.error.exit_code == 2
    assert violations(outcome) == []
    assert outcome.history.checkpoints == [(outcome.version, "")]
    assert outcome.version > 1
    resume = CheckpointStore(tmp_path, keep=2).newest()
    again = simulate(scenario, folder=tmp_path, resume=resume)
    assert str(again.error) == str(outcome.error)
    assert again.num_admitted == outcome.num_admitted  # the number of the prompt that did not come was not given out


@pytest.mark.parametrize("effective", ["now", "next_epoch"])
@pytest.mark.parametrize("stops", [(3.0,), (9.0, 6.0), (20.0,)])
def test_an_interrupted_run_draws_the_prompts_of_an_uninterrupted_one(
    effective: str, stops: tuple[float, ...], tmp_path: Path
) -> None:
    """At max_lag 0 a step's prompts are drawn at once, when all groups before are judged."""
    scenario = replace(BASE, max_lag=0, retire_effective=effective)
    whole = simulate(scenario)
    parts = []
    for stop in (*stops, None):
        resume = CheckpointStore(tmp_path, keep=2).newest()
        parts.append(simulate(replace(scenario, stop_at_s=stop), folder=tmp_path, resume=resume))
    assert violations(*parts) == []
    assert parts[-1].finished

    def prompts(steps: list) -> list[list[tuple[int, int]]]:  # type: ignore[type-arg]
        return [[(g.prompt.epoch, g.prompt.index) for g in t.groups] for t in steps]

    assert prompts(timeline(parts)) == prompts(whole.history.steps)
    assert parts[-1].history.steps[-1].curation == whole.history.steps[-1].curation
    assert whole.history.steps[-1].curation["curation/num_retired"] >= len(easy()) == 4


def test_groups_sampled_again_keep_the_prompts_they_had(tmp_path: Path) -> None:
    scenario = replace(BASE, max_lag=4, token_s=0.2)
    first = simulate(replace(scenario, stop_at_s=25.0), folder=tmp_path)
    unfinished = {e.admission: e.prompt for e in first.left if not e.finished}
    assert unfinished
    second = simulate(scenario, folder=tmp_path, resume=CheckpointStore(tmp_path, keep=2).newest())
    assert violations(first, second) == []
    groups = {g.admission: g for t in second.history.steps for g in t.groups}
    for admission, prompt in unfinished.items():
        assert (groups[admission].prompt.epoch, groups[admission].prompt.index) == (prompt.epoch, prompt.index)


def test_retirement_can_begin_in_a_resumed_run(tmp_path: Path) -> None:
    first = simulate(replace(BASE, retire_after=0, stop_at_s=9.0), folder=tmp_path)
    resume = CheckpointStore(tmp_path, keep=2).newest()
    second = simulate(BASE, folder=tmp_path, resume=resume)
    assert second.finished
    assert second.role_errors == ()
    start = first.num_admitted
    new = [g for t in second.history.steps for g in t.groups if g.admission >= start]
    assert [(g.prompt.epoch, g.prompt.index) for g in sorted(new, key=lambda g: g.admission)[:2]] == [
        divmod(start, 12),
        divmod(start + 1, 12),
    ]
    assert second.history.steps[-1].curation["curation/num_retired"] > 0


def test_the_memory_knows_every_group_that_was_judged() -> None:
    """No admission is left waiting for: all are recorded or skipped once the run is over."""
    seen: list[CuratedSource] = []

    def alter(parts: Parts) -> Parts:
        assert parts.curated is not None
        seen.append(parts.curated)
        return parts

    outcome = simulate(replace(BASE, at_bound="drop", stall_prob=0.2, zero_variance="refill"), alter=alter)
    memory = seen[0].to_dict()["memory"]
    unfinished = {e.admission for e in outcome.left if not e.finished}
    assert memory["next"] == min(unfinished, default=outcome.num_admitted)
