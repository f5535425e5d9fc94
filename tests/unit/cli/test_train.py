import io
from pathlib import Path

from rich.console import Console

from headrace.cli.train import _Watcher
from headrace.report.live import LiveView
from headrace.report.live_forecast import LiveForecaster
from tests.unit.scaling.runs import curve_rows


def test_an_evaluation_moves_the_held_out_figure_and_the_forecast(tmp_path: Path) -> None:
    view = LiveView(console=Console(file=io.StringIO()))
    watcher = _Watcher(view, LiveForecaster(tmp_path, 100), max_lag=1, num_steps=100)
    for row in curve_rows(40)[::4]:
        watcher("controller", {"kind": "evaluation", "row": row})
    assert view.state.held_out[-1][0] == 40
    assert view.state.forecast is watcher.forecaster.newest
    assert view.state.forecast is not None
    assert view.state.forecast.identified
