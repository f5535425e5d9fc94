"""Stop, crash and resume: each prompt once, outstanding groups come back, versions go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.pipeline.checkpoint import Checkpoint, CheckpointStore
from headrace.pipeline.sim.checks import max_lag_trained, timeline, violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate

BASE = Scenario(steps=12, num_generators=2, max_lag=4, max_ready_batches=10, token_s=0.02, stall_prob=0.1)


def newest(folder: Path) -> Checkpoint:
    checkpoint = CheckpointStore(folder, keep=2).newest()
    assert checkpoint is not None
    return checkpoint


def stop_and_go_on(scenario: Scenario, folder: Path, *stops: float) -> list[Outcome]:
    """Run, stop at each of the times (each counted from its part's start), resume, and at last run to the end."""
    first = simulate(replace(scenario, stop_at_s=stops[0]), folder=folder)
    later = (replace(scenario, stop_at_s=stop) for stop in (*stops[1:], None))
    return [first, *(simulate(part, folder=folder, resume=newest(folder)) for part in later)]


@pytest.mark.parametrize("stop_s", [0.0, 0.01, 0.7, 1.9, 3.0, 4.4, 6.1, 8.3])
@pytest.mark.parametrize("zero_variance", ["keep", "refill"])
@pytest.mark.parametrize("at_bound", ["wait", "drop"])
def test_a_stopped_run_goes_on_where_it_was(stop_s: float, at_bound: str, zero_variance: str, tmp_path: Path) -> None:
    scenario = replace(BASE, at_bound=at_bound, zero_variance=zero_variance, group_size=3)
    first, second = parts = stop_and_go_on(scenario, tmp_path, stop_s)
    assert violations(*parts) == []
    assert first.error is None
    assert not first.finished
    assert first.history.checkpoints == [(first.version, "")]
    assert second.finished
    assert second.history.steps[0].batch.step == first.version
    assert max_lag_trained(*parts) <= BASE.max_lag
    if zero_variance == "keep" and at_bound == "wait":
        assert sorted(g.admission for t in timeline(parts) for g in t.groups) == list(range(36))


def test_many_stops_in_one_run(tmp_path: Path) -> None:
    parts = stop_and_go_on(BASE, tmp_path, 2.0, 0.0, 1.0, 3.0, 0.3)
    assert violations(*parts) == []
    assert parts[-1].finished
    assert {t.batch.lineage for t in parts[-1].history.steps} == {5}


def test_what_was_spent_goes_on_over_the_attempts(tmp_path: Path) -> None:
    stop_and_go_on(BASE, tmp_path, 2.0, 1.0, 3.0)
    last = newest(tmp_path).controller_state()
    assert last.version == 12
    assert last.spent.compute.steps == 12


def test_finished_groups_come_back_as_they_were_and_unfinished_ones_are_sampled_again(tmp_path: Path) -> None:
    first, second = stop_and_go_on(BASE, tmp_path, 4.0)
    finished = {e.admission: e.group for e in first.left if e.group is not None}
    unfinished = {e.admission: e for e in first.left if e.group is None}
    assert finished
    assert unfinished
    trained = {g.admission: g for t in second.history.steps for g in t.groups}
    for admission, group in finished.items():
        for old, new in zip(group.rollouts, trained[admission].rollouts, strict=True):
            np.testing.assert_array_equal(old.policy_version, new.policy_version)
            np.testing.assert_array_equal(old.behaviour_logprob, new.behaviour_logprob)
    for admission in unfinished:
        assert trained[admission].oldest_version >= first.version  # with the weights of the resume
        assert all(r.lineage == 1 for r in trained[admission].rollouts)
    # What an uninterrupted run samples for the same prompts, token by token: seeds do not depend on the interruption.
    whole = {g.admission: g for t in simulate(BASE).history.steps for g in t.groups}
    for admission, group in trained.items():
        for mine, theirs in zip(group.rollouts, whole[admission].rollouts, strict=True):
            np.testing.assert_array_equal(mine.token_ids, theirs.token_ids)


def test_at_max_lag_0_a_resumed_run_trains_the_same_batches(tmp_path: Path) -> None:
    scenario = replace(BASE, max_lag=0)
    parts = stop_and_go_on(scenario, tmp_path, 9.0, 6.0)
    assert violations(*parts) == []
    whole, resumed = simulate(scenario).history.steps, timeline(parts)
    assert len(whole) == len(resumed) == 12
    for one, other in zip(whole, resumed, strict=True):
        assert [g.admission for g in one.groups] == [g.admission for g in other.groups]
        for mine, theirs in zip(one.batch.updates[0], other.batch.updates[0], strict=True):
            np.testing.assert_array_equal(mine.token_ids, theirs.token_ids)
            np.testing.assert_array_equal(mine.policy_version, theirs.policy_version)
            np.testing.assert_array_equal(mine.loss_weight, theirs.loss_weight)
            np.testing.assert_array_equal(mine.advantage, theirs.advantage)


@pytest.mark.parametrize("dies_s", [3.0, 4.5, 6.0, 7.5])
def test_after_a_crash_the_newest_checkpoint_goes_on(dies_s: float, tmp_path: Path) -> None:
    crash = replace(BASE, checkpoint_every=2, generator_dies_at_s=dies_s)
    first = simulate(crash, folder=tmp_path)
    assert first.error is not None
    second = simulate(replace(crash, generator_dies_at_s=None), folder=tmp_path, resume=newest(tmp_path))
    assert violations(first, second) == []
    assert second.finished
    assert second.history.steps[0].batch.step == first.history.checkpoints[-1][0]


def test_a_run_that_is_stopped_while_it_evaluates_ends_soon(tmp_path: Path) -> None:
    slow = replace(BASE, eval_every=1, eval_prompts=40, token_s=1.0, num_slots=2)
    before = simulate(replace(slow, stop_at_s=5.0), folder=tmp_path)
    assert before.error is None
    assert not before.finished
    assert before.end_s < 6
    assert before.history.evaluations == []
    assert before.history.checkpoints == [(0, "")]


def test_a_stop_during_the_last_evaluation_leaves_a_finished_run(tmp_path: Path) -> None:
    whole = simulate(replace(BASE, eval_every=50, eval_prompts=40), folder=tmp_path)
    last_step, last_evaluation = whole.history.step_times[-1], whole.history.evaluations[-1][0]
    stop_s = (last_step + last_evaluation) / 2
    outcome = simulate(replace(BASE, eval_every=50, eval_prompts=40, stop_at_s=stop_s), folder=tmp_path / "again")
    assert outcome.finished
    assert outcome.end_s < last_evaluation
    assert len(outcome.history.evaluations) == len(whole.history.evaluations) - 1
    assert outcome.history.checkpoints == [(12, "")]


def test_checkpoints_are_cut_between_steps_and_the_run_goes_on(tmp_path: Path) -> None:
    outcome = simulate(replace(BASE, checkpoint_every=3), folder=tmp_path)
    assert violations(outcome) == []
    assert outcome.history.checkpoints == [(3, ""), (6, ""), (9, ""), (12, "")]
    for checkpoint in CheckpointStore(tmp_path, keep=2).complete():
        state = checkpoint.controller_state()
        assert state.version == checkpoint.version
        assert (checkpoint.trainer_folder / "version.txt").read_text() == str(state.version)
        assert all(e.step is None for e in state.entries)  # no step was under way


def test_checkpoints_and_evaluations_by_the_clock(tmp_path: Path) -> None:
    """Steps of about a second for about 20 s: a checkpoint every 3 s or at the first boundary after it."""
    timed = replace(BASE, steps=20, checkpoint_every_s=3.0, eval_every_s=4.0)
    outcome = simulate(timed, folder=tmp_path)
    assert violations(outcome) == []
    versions = [version for version, _ in outcome.history.checkpoints]
    assert versions == sorted(set(versions))
    assert 5 <= len(versions) <= 8
    assert versions[-1] == 20
    assert 5 <= len(outcome.history.evaluations) <= 7  # before, every 4 s, after


def test_step_and_version_agree_after_a_resume(tmp_path: Path) -> None:
    """Saved at version 6: the first weights sampled from are version 6, the next step is the one from 6 to 7."""
    first = simulate(replace(BASE, checkpoint_every=6, trainer_hangs_at=8, max_lag=0), folder=tmp_path)
    assert first.history.checkpoints == [(6, "")]
    second = simulate(replace(BASE, max_lag=0), folder=tmp_path, resume=newest(tmp_path))
    step = second.history.steps[0]
    assert (step.batch.step, step.stepped.result.version) == (6, 7)
    assert {int(v) for g in step.groups for r in g.rollouts for v in r.policy_version[r.trainable]} == {6}
    assert [g.admission for g in step.groups] == [18, 19, 20]  # six steps of three prompts are done


def test_a_resume_under_a_lower_bound_samples_again_what_no_longer_fits(tmp_path: Path) -> None:
    first = simulate(replace(BASE, max_lag=8, stop_at_s=6.0), folder=tmp_path)
    second = simulate(replace(BASE, max_lag=0), folder=tmp_path, resume=newest(tmp_path))
    assert sum(e.finished for e in first.left) > 3  # more than the next step takes
    assert violations(first, second) == []
    assert max_lag_trained(second) == 0


def test_a_resume_of_a_finished_run_has_nothing_to_do(tmp_path: Path) -> None:
    simulate(BASE, folder=tmp_path)
    again = simulate(BASE, folder=tmp_path, resume=newest(tmp_path))
    assert again.finished
    assert again.history.steps == []
    longer = simulate(replace(BASE, steps=15), folder=tmp_path, resume=newest(tmp_path))
    assert [t.batch.step for t in longer.history.steps] == [12, 13, 14]
    assert sorted(longer.history.trained_admissions) == list(range(36, 45))
