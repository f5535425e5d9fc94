"""Whatever dies, nothing is left behind, the message names the role, and the run can go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from headrace.pipeline.checkpoint import CheckpointStore
from headrace.tracking.metrics_log import read_metrics
from headrace.tracking.rollout_store import read_rollouts
from tests.e2e.runs import SMALL, Started, gone_within, shared_memory_files

LONG = (*SMALL, "run.steps=500", "checkpoint.every_steps=2")


def ended(started: Started) -> tuple[int, str]:
    output, _ = started.process.communicate(timeout=60)
    return started.process.returncode, output


@pytest.mark.parametrize("role", ["trainer", "generator-0", "controller"])
def test_kill_9_of_a_role_ends_the_run_naming_it(headrace: Callable[..., Started], role: str) -> None:
    before = shared_memory_files()
    started = headrace("demo", *LONG)
    started.wait_for_steps(3)
    run_id, folder = started.run_id(), started.folder()
    os.kill(started.pid_of(role), signal.SIGKILL)
    code, output = ended(started)
    assert code == 1
    assert f"{role} was ended by SIGKILL" in output
    assert gone_within(run_id, 5)
    assert shared_memory_files() == before
    newest = CheckpointStore(folder, keep=2).newest()
    assert newest is not None
    assert newest.version >= 2


def test_kill_9_of_the_supervisor_leaves_nothing(headrace: Callable[..., Started]) -> None:
    before = shared_memory_files()
    started = headrace("demo", *LONG)
    started.wait_for_steps(1)
    run_id = started.run_id()
    os.kill(started.process.pid, signal.SIGKILL)
    started.process.wait()
    assert gone_within(run_id, 5)
    assert shared_memory_files() == before


def test_ctrl_c_writes_a_checkpoint_and_resume_goes_on(
    headrace: Callable[..., Started], run_headrace: Callable[..., tuple]
) -> None:
    started = headrace("demo", *SMALL, "run.steps=40")
    started.wait_for_steps(3)
    run_id, folder = started.run_id(), started.folder()
    os.kill(started.process.pid, signal.SIGINT)
    code, output = ended(started)
    assert code == 130, output
    assert "--resume" in output
    assert gone_within(run_id, 5)
    newest = CheckpointStore(folder, keep=2).newest()
    assert newest is not None
    stopped_at = newest.version
    assert 3 <= stopped_at < 40

    steps = stopped_at + 4
    code, output, _ = run_headrace("train", "--resume", str(folder), f"run.steps={steps}", runs=started.runs)
    assert code == 0, output
    assert f"step {stopped_at}" in output
    assert [row["step"] for row in read_metrics(folder)] == list(range(1, steps + 1))
    # Every prompt once: outstanding groups came back, none was lost or trained twice.
    groups = [row["group_id"] for row in read_rollouts(folder).to_pylist()]
    counts = {g: groups.count(g) for g in set(groups)}
    assert set(counts.values()) == {8}
    assert {int(g.rpartition("-")[2]) for g in counts} == set(range(8 * steps))
