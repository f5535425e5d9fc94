"""A sweep of real runs: stopped in the middle it leaves no process, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.tracking.attempts import last_steps
from headrace.tracking.metrics_log import read_metrics
from tests.e2e.runs import SMALL, Started, gone_within

STEPS = 25


@pytest.mark.slow
def test_a_sweep_stopped_by_ctrl_c_goes_on(headrace: Callable[..., Started], tmp_path: Path) -> None:
    out = tmp_path / "study"
    arguments = (
        "sweep", "demo", "algorithm.loss=cispo,ppo_clip", *SMALL, f"run.steps={STEPS}", "checkpoint.every_steps=1",
        "--seeds", "4", "--out", str(out),
    )  # fmt: skip
    first = headrace(*arguments, runs=out / "runs")
    first.wait_for_steps(3)
    run_id = first.run_id()
    os.kill(first.process.pid, signal.SIGINT)
    output, _ = first.process.communicate(timeout=60)
    assert first.process.returncode == 130, output
    assert gone_within(run_id, 5)
    assert "loss=cispo, seed 4: interrupted" in output

    again = headrace(*arguments, runs=out / "runs")
    output, _ = again.process.communicate(timeout=200)
    assert again.process.returncode == 0, output
    cispo, ppo_clip = sorted((out / "runs").iterdir())
    assert (len(last_steps(cispo)), len(last_steps(ppo_clip))) == (2, 1)
    for folder in (cispo, ppo_clip):
        assert [row["step"] for row in read_metrics(folder)] == list(range(1, STEPS + 1))
    results = json.loads((out / "results.json").read_text())
    assert [(run["variant"], run["seed"]) for run in results["runs"]] == [("loss=cispo", 4), ("loss=ppo_clip", 4)]
    assert results["variants"][1]["verdict"] == "one seed shows no spread"
