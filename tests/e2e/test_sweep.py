"""A sweep of real runs, stopped in the second one: no process is left, the first one's result is there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.runs import SMALL, Started, gone_within, wait_for


@pytest.mark.slow
def test_ctrl_c_ends_a_sweep_and_keeps_what_is_finished(headrace: Callable[..., Started], tmp_path: Path) -> None:
    out = tmp_path / "study"
    started = headrace("sweep", "demo", "run.steps=3,500", *SMALL, "--seeds", "4", "--out", str(out), runs=out / "runs")
    wait_for(lambda: list(out.glob("runs/*-steps-500-seed4/metrics.jsonl")), 120, "steps of the second run")
    run_id = started.run_id()
    os.kill(started.process.pid, signal.SIGINT)
    output, _ = started.process.communicate(timeout=60)
    assert started.process.returncode == 130, output
    assert gone_within(run_id, 5)
    assert "[2/2] steps=500, seed 4: interrupted" in output
    records = json.loads((out / "sweep.json").read_text())["runs"]
    assert [record["status"] for record in records] == ["finished", "interrupted"]
    (run,) = json.loads((out / "results.json").read_text())["runs"]
    assert (run["variant"], run["seed"], run["max_lag"]) == ("steps=3", 4, 1)
    assert 0.2 < run["pass_rate_before"] < 0.6
