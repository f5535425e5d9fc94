import struct
from pathlib import Path

import pytest

from headrace.report.curve import moving_mean, series, write_curve
from headrace.tracking.eval_log import Compute, EvalLog
from headrace.tracking.metrics_log import MetricsLog, read_metrics


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_png_of_a_run(tmp_path: Path) -> None:
    log, evals = MetricsLog(tmp_path), EvalLog(tmp_path)
    for step in range(1, 31):
        log.log(step, {"reward/pass_rate": step / 30, "loss/entropy": 1 / step, "rollout/lag_max": 3.0})
    for version, mean in ((0, 0.1), (30, 0.9)):
        stats = {"mean_at_n": mean, "standard_error": 0.02}
        evals.log(version, stats, temperature=1.0, compute=Compute())
    path = write_curve(tmp_path, title="a run", max_lag=4)
    assert path == tmp_path / "curve.png"
    assert png_size(path) == (1200, 840)
    assert path.stat().st_size > 20_000
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("num_steps", [0, 1])
def test_a_run_that_has_hardly_begun_can_be_drawn(tmp_path: Path, num_steps: int) -> None:
    log = MetricsLog(tmp_path)
    for step in range(1, num_steps + 1):
        log.log(step, {"reward/pass_rate": float("nan")})
    assert png_size(write_curve(tmp_path)) == (1200, 840)


def test_series_leave_out_steps_without_a_value(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.log(1, {"x": 1.0})
    log.log(2, {"x": float("inf")})
    log.log(3, {"y": 1.0})
    log.log(4, {"x": 4.0})
    assert series(read_metrics(tmp_path), "x") == ([1, 4], [1.0, 4.0])


def test_moving_mean() -> None:
    assert moving_mean([1, 2, 3, 4], 2) == [1, 1.5, 2.5, 3.5]
    assert moving_mean([], 3) == []
