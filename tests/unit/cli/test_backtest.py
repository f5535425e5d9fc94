"""``headrace fit --backtest`` from outside."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.report.live_forecast import LiveForecaster
from headrace.tracking.eval_log import EVALS_FILE
from headrace.tracking.forecast_log import FORECASTS_FILE
from tests.unit.scaling.runs import curve_rows


def make_run(folder: Path, *, last: int, num_steps: int, store: bool = True) -> str:
    folder.mkdir()
    rows = curve_rows(last)[::4]
    (folder / EVALS_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    if store:
        forecaster = LiveForecaster(folder / "other", num_steps)
        for row in rows:
            forecaster.take(row)
        forecaster.close()
        (folder / "other" / FORECASTS_FILE).rename(folder / FORECASTS_FILE)
    return str(folder)


def backtest(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> tuple[dict, str]:
    out = tmp_path / "out.json"
    assert main(["fit", "--backtest", *arguments, "--json", str(out)]) == 0
    return json.loads(out.read_text()), capsys.readouterr().out


def test_stored_forecasts_are_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", last=60, num_steps=60)
    found, text = backtest(capsys, tmp_path, run, "--plot", str(tmp_path / "b.png"), "--plot", str(tmp_path / "b.html"))
    (one,) = found["runs"]
    assert not one["remade"]
    assert [row["version"] for row in one["forecasts"]] == list(range(20, 60, 4))  # of 16 evaluations, 5 come too early
    inside = [row["inside"] for row in one["forecasts"]]
    assert found["num_said"] == sum(held is not None for held in inside)
    assert found["num_inside"] == sum(held is True for held in inside)
    assert found["coverage"] == pytest.approx(found["num_inside"] / found["num_said"])
    assert f"{found['num_inside']} of {found['num_said']} forecasts held what came" in text
    assert "made now" not in text
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "b.html").read_text()
    assert page.count("<tr>") == 2 + 10  # heading, column names, ten forecasts
    assert "step 40 (67%)" in page


def test_older_runs_and_other_options_are_forecast_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = make_run(tmp_path / "old", last=60, num_steps=60, store=False)
    found, text = backtest(capsys, tmp_path, old)
    assert found["runs"][0]["remade"]
    assert "made now, each from the evaluations of its time: the run has no forecasts.jsonl" in text
    run = make_run(tmp_path / "run", last=60, num_steps=60)
    found, text = backtest(capsys, tmp_path, run, "--compute", "steps")
    assert "another fit than the run stored" in text
    assert {row["unit"] for row in found["runs"][0]["forecasts"]} == {"steps"}


def test_a_run_that_was_stopped_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", last=48, num_steps=100)
    found, text = backtest(capsys, tmp_path, run)
    assert "step 100, which the stored ones are about, has not been evaluated" in text
    assert {row["target_step"] for row in found["runs"][0]["forecasts"]} == {48}


def test_coverage_over_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path / name, last=60, num_steps=60) for name in ("a", "b")]
    found, text = backtest(capsys, tmp_path, *runs)
    assert found["num_said"] == sum(run["num_said"] for run in found["runs"])
    assert "all runs: " in text


def test_what_cannot_be_backtested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve = tmp_path / "a.csv"
    curve.write_text("compute,score\n0,0.1\n")
    assert main(["fit", "--backtest", str(curve)]) == 2
    assert "needs a run folder" in capsys.readouterr().err
    run = make_run(tmp_path / "run", last=16, num_steps=60)
    assert main(["fit", "--backtest", run]) == 2
    assert "5 evaluations are too few" in capsys.readouterr().err
    assert main(["fit", "--backtest", run, "--until", "100"]) == 2
