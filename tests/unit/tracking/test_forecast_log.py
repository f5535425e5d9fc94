from pathlib import Path

import pytest

from headrace.errors import DataError
from headrace.scaling.made import MadeForecast
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.forecast_log import FORECASTS_FILE, ForecastLog, read_forecasts


def said(version: int, value: float | None = 0.5) -> MadeForecast:
    return MadeForecast(
        version=version, compute=2.5 * version, unit="device_s", target_step=60, target_compute=150.0, num_points=7,
        value=value, interval=None if value is None else (value - 0.01, value + 0.01), level=0.9,
        identified=value is not None, reasons=() if value is not None else ("too short", "falls"), A=0.61, B=1.9,
        C_mid=40.0, R0=0.25, interval_A=(0.6, 0.62),
    )  # fmt: skip


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    log = ForecastLog(tmp_path)
    log.log(said(20))
    log.log(said(10, None))
    log.close()
    assert read_forecasts(tmp_path) == [said(10, None), said(20)]


def test_superseded_forecasts_are_left_out_and_the_last_of_a_version_counts(tmp_path: Path) -> None:
    first = ForecastLog(tmp_path, attempt=begin_attempt(tmp_path))
    for version in (10, 20, 30):
        first.log(said(version, 0.4))
    second = ForecastLog(tmp_path, attempt=begin_attempt(tmp_path, 20))
    second.log(said(20, 0.45))
    second.log(said(30, 0.6))
    assert [(made.version, made.value) for made in read_forecasts(tmp_path)] == [(10, 0.4), (20, 0.45), (30, 0.6)]


def test_none_stored_and_a_line_that_is_no_forecast(tmp_path: Path) -> None:
    assert read_forecasts(tmp_path) == []
    (tmp_path / FORECASTS_FILE).write_text('{"step": 1, "attempt": 1, "version": 1}\n')
    with pytest.raises(DataError, match="a stored forecast lacks compute"):
        read_forecasts(tmp_path)
