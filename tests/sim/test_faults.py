"""What goes wrong ends the run soon, with an error that names what is missing; it never hangs, never looks finished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import ChannelClosed, ConfigError, PublicationError, WaitTimeout
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.sim.checks import violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate

BASE = Scenario(steps=10, num_generators=2, timeout_s=30.0)


def error_of(outcome: Outcome) -> Exception:
    assert outcome.error is not None
    assert not outcome.finished
    return outcome.error


def test_a_lost_update_is_detected_while_everything_else_goes_on() -> None:
    """Generator 0 takes no version from 3 on, but samples diligently; generator 1 is well, so the run itself moves."""
    outcome = simulate(replace(BASE, deaf_from=3, steps=1000, max_lag=8))
    error = error_of(outcome)
    assert isinstance(error, PublicationError)
    assert "generator 'generator-0' still samples from version 2" in str(error)
    assert "version 3 was published" in str(error)
    published_3 = outcome.history.step_times[2]
    assert published_3 + 30 <= outcome.end_s <= published_3 + 32


def test_a_generator_that_is_always_late_is_no_lost_update() -> None:
    """It confirms versions about 3 s late, in which time three more are published: never up to date, never lost."""
    outcome = simulate(replace(BASE, take_s=(0.05, 3.0), steps=100, train_s=1.0, max_lag=8))
    assert outcome.error is None
    assert outcome.end_s > 3 * BASE.timeout_s
    assert violations(outcome) == []


def test_a_completion_that_never_comes_is_named() -> None:
    error = error_of(simulate(replace(BASE, lost_completion=7)))
    assert isinstance(error, WaitTimeout)
    assert "nothing moved for 30 s" in str(error)
    assert "on generator 'generator-0'" in str(error)
    assert "'generator-0' 1 completions, 'generator-1' 0 completions" in str(error)


def test_a_training_step_that_never_ends_is_named() -> None:
    error = error_of(simulate(replace(BASE, trainer_hangs_at=4)))
    assert isinstance(error, WaitTimeout)
    assert str(error) == "nothing moved for 30 s; waiting for the trainer to finish step 4"


def test_an_evaluation_that_never_ends_is_named() -> None:
    """The first request of the run is one of the evaluation before training."""
    error = error_of(simulate(replace(BASE, lost_completion=1, eval_every=1)))
    assert isinstance(error, WaitTimeout)
    assert "evaluating before" in str(error)
    assert "'generator-0' 1 completions" in str(error)


def test_a_long_evaluation_is_no_time_out() -> None:
    """300 s of evaluation in completions of about 10 s each; nothing else moves for ten times the time-out."""
    slow = replace(BASE, eval_every=100, eval_prompts=30, num_slots=2, num_generators=1, token_s=1.0, length_sigma=0.3)
    outcome = simulate(slow)
    assert outcome.finished
    assert outcome.history.evaluations[0][0] > 5 * BASE.timeout_s


@pytest.mark.parametrize("at_s", [0.0, 0.5, 3.3, 7.0])
def test_a_generator_that_dies_ends_the_run_at_once(at_s: float) -> None:
    outcome = simulate(replace(BASE, generator_dies_at_s=at_s))
    error = error_of(outcome)
    assert isinstance(error, ChannelClosed)
    assert "'generator-0'" in str(error)
    assert outcome.end_s < at_s + 1


@pytest.mark.parametrize("at_s", [0.5, 3.3, 7.0])
def test_a_trainer_that_dies_ends_the_run_at_once(at_s: float) -> None:
    outcome = simulate(replace(BASE, trainer_dies_at_s=at_s))
    assert isinstance(error_of(outcome), ChannelClosed)
    assert "'trainer'" in str(outcome.error)
    assert outcome.end_s < at_s + 1


def test_a_failed_run_leaves_no_final_checkpoint(tmp_path: Path) -> None:
    outcome = simulate(replace(BASE, generator_dies_at_s=5.0), folder=tmp_path)
    assert outcome.history.checkpoints == []
    assert CheckpointStore(tmp_path, keep=1).newest() is None


def test_refill_gives_up_when_no_prompt_has_signal() -> None:
    error = error_of(simulate(replace(BASE, zero_variance="refill", solvable=0.0)))
    assert isinstance(error, ConfigError)
    assert "refill threw away 201 groups in a row" in str(error)


def test_a_disk_without_space_costs_the_checkpoint_and_not_the_run(tmp_path: Path) -> None:
    full = replace(BASE, checkpoint_every=2, save_fails_at=(4, 6), keep=5)
    outcome = simulate(full, folder=tmp_path)
    assert outcome.finished
    no_space = "no space left on device"
    assert outcome.history.checkpoints == [(2, ""), (4, no_space), (6, no_space), (8, ""), (10, "")]
    assert [c.version for c in CheckpointStore(tmp_path, keep=5).complete()] == [2, 8, 10]
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step_000002", "step_000008", "step_000010"]


def test_verdicts_that_fail_leave_their_rollouts_out_and_nothing_else() -> None:
    outcome = simulate(replace(BASE, verifier_error=0.4, group_size=4))
    assert violations(outcome) == []
    assert outcome.finished
    rewards = [r for t in outcome.history.steps for r in t.batch.rewards]
    unjudged = sum(bool(r != r) for r in rewards)
    assert len(rewards) == 10 * 3 * 4
    assert 0.2 < unjudged / len(rewards) < 0.6


def test_shrink_keeps_the_place_of_groups_without_signal() -> None:
    outcome = simulate(replace(BASE, zero_variance="shrink", solvable=0.5))
    assert violations(outcome) == []
    assert outcome.history.drops == []
    groups = [g for t in outcome.history.steps for g in t.groups]
    assert 0 < sum(not g.signal for g in groups) < len(groups)
    for trained in outcome.history.steps:
        kept = sum(r.num_trainable for g in trained.groups if g.signal for r in g.rollouts)
        assert trained.batch.num_trainable == kept


def test_refill_trains_groups_with_signal_only_and_to_the_last_step() -> None:
    outcome = simulate(replace(BASE, zero_variance="refill", solvable=0.8, group_size=3))
    assert violations(outcome) == []
    assert outcome.finished
    assert all(len(set(g.rewards)) > 1 for t in outcome.history.steps for g in t.groups)
    assert {d.reason for d in outcome.history.drops} == {"zero variance"}
