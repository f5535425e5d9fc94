import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.report.live_forecast import LiveForecaster
from headrace.scaling.run_end import forecast_end
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.eval_log import EVALS_FILE
from headrace.tracking.forecast_log import read_forecasts
from tests.unit.scaling.runs import curve_rows, eval_row


def write_evals(folder: Path, rows: list[dict]) -> None:
    with (folder / EVALS_FILE).open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_three_evaluations_give_the_reason_only(tmp_path: Path) -> None:
    forecaster = LiveForecaster(tmp_path, 100)
    said = [forecaster.take(row) for row in curve_rows(2)]
    forecaster.close()
    assert [made.reasons for made in said if made] == [(f"{k} of the 6 evaluations a fit needs",) for k in (1, 2, 3)]
    assert {(made.A, made.value, made.identified) for made in said if made} == {(None, None, False)}
    assert read_forecasts(tmp_path) == said


def test_every_forecast_is_made_from_the_evaluations_so_far_and_stored(tmp_path: Path) -> None:
    rows = curve_rows(40)[::4]
    forecaster = LiveForecaster(tmp_path, 100)
    said = [forecaster.take(row) for row in rows]
    assert [made.version for made in said if made] == list(range(0, 41, 4))
    assert said[6] == forecast_end(rows[:7], 100)
    assert said[-1] is not None
    assert said[-1].identified
    assert said[-1].interval[0] < 0.59977 < said[-1].interval[1]  # the curve at the end, see test_run_end.py
    assert forecaster.newest == said[-1]
    assert read_forecasts(tmp_path) == said


def test_superseded_evaluations_are_not_used(tmp_path: Path) -> None:
    begin_attempt(tmp_path)
    good = curve_rows(40)[::4]
    write_evals(tmp_path, [*good[:8], *(row | {"mean_at_n": 0.9} for row in good[8:])])  # steps 32 to 40 went wrong
    attempt = begin_attempt(tmp_path, 28)
    forecaster = LiveForecaster(tmp_path, 100, attempt=attempt)
    assert forecaster.take(good[8]) == forecast_end(good[:9], 100)
    # the checkpoint's own version is evaluated once more: counted once
    assert forecaster.take(good[7]) == forecast_end(good[:9], 100)


def test_what_goes_wrong_ends_forecasts_and_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forecaster = LiveForecaster(tmp_path, 100)
    assert forecaster.take(eval_row(0, 0.3, compute=0.0)) is not None
    broken = eval_row(4, 0.3, compute=1.0) | {"compute": None}
    assert forecaster.take(broken) is None
    assert "the run goes on" in caplog.text
    assert forecaster.take(eval_row(8, 0.4, compute=2.0)) is None
    assert forecaster.newest is None
    forecaster.close()


def test_scipy_is_not_loaded_for_runs_that_cannot_be_fitted() -> None:
    script = "import sys, headrace.cli.train; print([m for m in sys.modules if m.partition('.')[0] == 'scipy'])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
