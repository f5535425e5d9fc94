"""``headrace fit RUN|FILE...``: the learning curve of a run, and whether it says where the run will end."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.errors import ConfigError, DataError
from headrace.scaling.estimate import PARAMETERS, Options
from headrace.scaling.fit import fit_runs
from headrace.scaling.grid import GridRanges, ranges
from headrace.scaling.points import Points
from headrace.scaling.power_law import WARNING, power_law_of
from headrace.scaling.readers.files import read_points
from headrace.scaling.readers.run_log import points_from_evals
from headrace.scaling.result import Fit
from headrace.tracking.eval_log import EVALS_FILE, read_evals


def run_fit(options: argparse.Namespace, console: Console | None = None) -> int:
    """Fit, print, and write what was asked for. A refusal is an answer: the exit code is 0."""
    console = console or Console()
    runs = load_runs(options.targets, options)
    fitted = [run.window(options.start, options.until) for run in runs]
    fit = fit_runs(fitted, fit_options(options))
    _print(console, fit)
    law = _power_law(fit)
    if law:
        console.print(
            f"power law, for comparison: ceiling {law['A']:.3f} ({WARNING})",
            style="dim",
            highlight=False,
            soft_wrap=True,
        )
    if options.json:
        write_json(options.json, fit.to_json() | {"power_law": law})
    held_out = [run.beyond(options.until) for run in runs]
    for path in options.plot or ():
        from headrace.report.scaling_plot import write_plot

        write_plot(path, [fit], ["/".join(run.name for run in runs)], held_out=[held_out])
        console.print(f"plot: {path}", highlight=False, soft_wrap=True)
    return 0


def load_runs(targets: Sequence[str], options: argparse.Namespace) -> list[Points]:
    """The curves of run folders and files. Several are runs of one recipe; a target may be a comma-separated list."""
    return [load_points(part, options) for target in targets for part in _parts(target)]


def load_points(target: str, options: argparse.Namespace) -> Points:
    """One curve: of a run's ``evals.jsonl``, or of any file ``scaling/readers`` knows."""
    path = Path(target)
    if path.name == EVALS_FILE:
        path = path.parent
    if (path / EVALS_FILE).is_file():
        rows = read_evals(path)
        return points_from_evals(rows, name=path.resolve().name, compute=options.compute, score=options.score)
    return read_points(path, compute=options.compute, score=options.score)


def fit_options(options: argparse.Namespace) -> Options:
    """``Options`` of a fit from the command line. Raises ``ConfigError`` for values that cannot be used."""
    grid = _grid(options)
    if grid is not None and options.method != "grid":
        raise ConfigError("--grid-a and --grid-mid belong to --method grid")
    return Options(
        method=options.method.replace("-", "_"),
        interval=options.interval,
        R0=options.r0,
        grid=grid,
        draws=options.draws,
        level=options.level,
    )


def write_json(path: str, content: Any) -> None:
    """Write ``content`` to a file. Raises ``DataError`` when it cannot be written."""
    try:
        Path(path).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None


def say_reasons(console: Console, fit: Fit) -> None:
    """Why a fit must not be extrapolated, and what else there is to know."""
    for reason in fit.reasons:
        console.print(f"  refused: {reason}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    for note in fit.notes:
        console.print(f"  note: {note}", style="dim", highlight=False, markup=False, soft_wrap=True)


def _print(console: Console, fit: Fit) -> None:
    from rich.table import Table

    names = ", ".join(run.name for run in fit.runs)
    count = sum(len(run) for run in fit.runs)
    console.print(
        f"{names}: {count} evaluations up to {fit.largest_compute:.6g} {fit.unit}", highlight=False, soft_wrap=True
    )
    if math.isnan(fit.A):
        say_reasons(console, fit)
        return
    table = Table("", "estimate", f"{fit.options.level:.0%} interval")
    said = {"A": "A, ceiling", "B": "B, efficiency", "C_mid": f"C_mid, {fit.unit}", "R0": "R0, at the start"}
    for name in PARAMETERS:
        low, high = fit.intervals[name]
        table.add_row(said[name], f"{getattr(fit, name):.4g}", f"{low:.4g} .. {high:.4g}")
    console.print(table)
    console.print(
        "identified: " + ("yes" if fit.identified else "no; do not extrapolate"), highlight=False, soft_wrap=True
    )
    say_reasons(console, fit)


def _power_law(fit: Fit) -> dict[str, Any] | None:
    """The power law of the first run, or None when there is no rise."""
    if math.isnan(fit.A):
        return None
    run = fit.runs[0]
    law = power_law_of(run, fit.noise.error[: len(run)])
    return {"A": float(law.A[0]), "p": float(law.p[0]), "warning": WARNING}


def _parts(target: str) -> list[str]:
    return [target] if Path(target).exists() else [part for part in target.split(",") if part]


def _grid(options: argparse.Namespace) -> GridRanges | None:
    if options.grid_a is None and options.grid_mid is None:
        return None
    if options.grid_a is None or options.grid_mid is None:
        raise ConfigError("--grid-a and --grid-mid go together")
    return ranges(*options.grid_a, *options.grid_mid)
