import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.tracking.attempts import begin_attempt
from headrace.tracking.metrics_log import MetricsLog, read_metrics


class Ticks:
    """A clock one sets by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_line_a_step(tmp_path: Path) -> None:
    clock = Ticks()
    log = MetricsLog(tmp_path, clock=clock)
    clock.now += 2.5
    log.log(1, {"reward/mean": np.float32(0.5), "trainer/num_updates": 2})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "step": 1,
        "attempt": 1,
        "time_s": 2.5,
        "num_nonfinite": 0,
        "metrics": {"reward/mean": 0.5, "trainer/num_updates": 2},
    }
    log.close()


def test_non_finite_values_are_null_and_counted(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.log(1, {"a": math.nan, "b": -math.inf, "c": 1.0, "d": float(np.float32("inf"))})
    log.log(2, {"a": math.nan})
    log.close()
    first, second = read_metrics(tmp_path)
    assert first["metrics"] == {"a": None, "b": None, "c": 1.0, "d": None}
    assert (first["num_nonfinite"], second["num_nonfinite"], log.num_nonfinite) == (3, 1, 4)


def test_time_goes_on_and_superseded_lines_are_skipped_after_a_resume(tmp_path: Path) -> None:
    clock = Ticks()
    log = MetricsLog(tmp_path, attempt=begin_attempt(tmp_path), clock=clock)
    for step in (1, 2, 3):
        clock.now += 10
        log.log(step, {"x": step})
    log.close()
    clock.now = 5.0  # another process, another origin
    log = MetricsLog(tmp_path, attempt=begin_attempt(tmp_path, 2), clock=clock)
    clock.now += 4
    log.log(3, {"x": 33})
    log.close()
    rows = read_metrics(tmp_path)
    assert [(row["step"], row["attempt"], row["metrics"]["x"], row["time_s"]) for row in rows] == [
        (1, 1, 1, 10.0),
        (2, 1, 2, 20.0),
        (3, 2, 33, 34.0),
    ]


def test_a_torn_last_line_spoils_neither_reading_nor_appending(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(tmp_path)
    log.log(1, {"x": 1})
    log.close()
    path.write_bytes(path.read_bytes() + b'{"step": 2, "attempt": 1, "ti')
    assert [row["step"] for row in read_metrics(tmp_path)] == [1]
    log = MetricsLog(tmp_path)
    log.log(2, {"x": 2})
    log.close()
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_lines_survive_a_kill(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from headrace.tracking.metrics_log import MetricsLog\n"
        "log = MetricsLog(sys.argv[1])\n"
        "for step in range(1, 4): log.log(step, {'x': step})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [row["metrics"]["x"] for row in read_metrics(tmp_path)] == [1, 2, 3]
