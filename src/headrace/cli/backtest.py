"""``headrace fit --backtest RUN...``: how good a run's earlier forecasts of its end were."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace.cli.fit import fit_options, write_json
from headrace.errors import ConfigError, DataError
from headrace.report.backtest_plot import cells, write_backtest_plot
from headrace.scaling.backtest import Backtest, judge, remake
from headrace.scaling.defaults import COMPUTE_FIELDS
from headrace.scaling.estimate import Options
from headrace.tracking.eval_log import EVALS_FILE, read_evals
from headrace.tracking.forecast_log import FORECASTS_FILE, read_forecasts


def run_backtest(options: argparse.Namespace, console: Console | None = None) -> int:
    """Print what was said and what came, run by run, and the coverage over all. The exit code is 0."""
    console = console or Console()
    if options.start > 0 or options.until < math.inf:
        raise ConfigError("--backtest tests every forecast of a run; it does not go with --from and --until")
    found = [backtest_run(target, options) for target in options.targets]
    for backtest in found:
        _print(console, backtest)
    if len(found) > 1:
        _say(console, f"all runs: {_coverage(found)}")
    if options.json:
        write_json(options.json, {"runs": [backtest.to_json() for backtest in found], **_totals(found)})
    for path in options.plot or ():
        write_backtest_plot(path, found)
        _say(console, f"plot: {path}")
    return 0


def backtest_run(target: str, options: argparse.Namespace) -> Backtest:
    """The stored forecasts of a run against its evaluations; made again where there are none that can be tested.

    Raises ``DataError`` when it is no run folder, or has too few evaluations.
    """
    folder = Path(target)
    if not (folder / EVALS_FILE).is_file():
        raise DataError(f"--backtest needs a run folder; '{target}' has no {EVALS_FILE}")
    rows, name = read_evals(folder), folder.resolve().name
    why, tests = _stored(folder, rows, options)
    if tests:
        return Backtest(name, tests, remade=False)
    choice = {"compute": options.compute, "score": options.score}
    made = remake(rows, options=fit_options(options), **choice)
    return Backtest(name, judge(made, rows, score=options.score), remade=True, why_remade=why)


def _stored(folder: Path, rows: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> tuple[str, Any]:
    """Why the stored forecasts cannot be tested ("" if they can), and their tests."""
    unit = options.compute or COMPUTE_FIELDS[0]
    if fit_options(options) != Options() or unit != COMPUTE_FIELDS[0] or options.score not in (None, "mean_at_n"):
        return "the options ask for another fit than the run stored", ()
    forecasts = read_forecasts(folder)
    if not forecasts:
        return f"the run has no {FORECASTS_FILE}", ()
    tests = judge(forecasts, rows)
    ends = sorted({made.target_step for made in forecasts})
    return f"step {ends[-1]}, which the stored ones are about, has not been evaluated", tests


def _print(console: Console, backtest: Backtest) -> None:
    _say(console, f"{backtest.name}: forecasts of its own end")
    if backtest.remade:
        _say(console, f"  made now, each from the evaluations of its time: {backtest.why_remade}", style="yellow")
    table = Table("made at", "for", "said", "came", "inside")
    for test in backtest.tests:
        table.add_row(*cells(test))
    console.print(table)
    _say(console, _coverage([backtest]))


def _totals(found: Sequence[Backtest]) -> dict[str, Any]:
    said = [test for backtest in found for test in backtest.said]
    inside = sum(backtest.num_inside for backtest in found)
    return {"num_said": len(said), "num_inside": inside, "coverage": inside / len(said) if said else None}


def _coverage(found: Sequence[Backtest]) -> str:
    totals = _totals(found)
    silent = sum(len(backtest.tests) for backtest in found) - totals["num_said"]
    tail = f"; {silent} times nothing was said" if silent else ""
    if totals["coverage"] is None:
        return f"no forecast was made{tail}"
    misses = [abs(test.miss or 0.0) for backtest in found for test in backtest.said]
    return (
        f"{totals['num_inside']} of {totals['num_said']} forecasts held what came ({totals['coverage']:.0%}), "
        f"mean miss {sum(misses) / len(misses):.3f}{tail}"
    )


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)
