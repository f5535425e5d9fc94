"""``headrace compare RUN_A RUN_B ...``: ceilings, efficiency, crossing, and who is ahead at equal compute."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from rich.console import Console

from headrace.cli.fit import fit_options, load_runs, say_reasons, write_json
from headrace.errors import ConfigError
from headrace.scaling.compare import Comparison, compare_all
from headrace.scaling.fit import fit_runs
from headrace.scaling.result import Fit


def run_compare(options: argparse.Namespace, console: Console | None = None) -> int:
    """Print every recipe and its comparison with the first. A recipe of several seeds is written RUN,RUN,RUN."""
    console = console or Console()
    if len(options.targets) < 2:
        raise ConfigError("compare needs at least two runs; several seeds of one recipe are joined by commas")
    recipes = [load_runs([target], options) for target in options.targets]
    fitted = [[run.window(options.start, options.until) for run in runs] for runs in recipes]
    fits = [fit_runs(runs, fit_options(options)) for runs in fitted]
    names = _names(recipes)
    found = compare_all(fits, names, compute=options.at, margin=options.margin)
    _print_fits(console, fits, names)
    for comparison in found:
        _print(console, comparison)
    if options.json:
        content = {
            "fits": [{"name": name} | fit.to_json() for name, fit in zip(names, fits)],
            "comparisons": [comparison.to_json() for comparison in found],
        }
        write_json(options.json, content)
    for path in options.plot or ():
        from headrace.report.scaling_plot import write_plot

        write_plot(path, fits, names, held_out=[[run.beyond(options.until) for run in runs] for runs in recipes])
        console.print(f"plot: {path}", highlight=False)
    return 0


def _names(recipes: Sequence[Sequence[object]]) -> list[str]:
    """The first run's name of each recipe, numbered where they repeat."""
    names = [str(getattr(runs[0], "name", "")) + (f" (x{len(runs)})" if len(runs) > 1 else "") for runs in recipes]
    return [name if names.count(name) == 1 else f"{name} #{i}" for i, name in enumerate(names, 1)]


def _print_fits(console: Console, fits: Sequence[Fit], names: Sequence[str]) -> None:
    from rich.table import Table

    table = Table("recipe", "A", "B", f"C_mid, {fits[0].unit}", "identified")
    for name, fit in zip(names, fits):
        cells = [_value(getattr(fit, key), fit.intervals[key]) for key in ("A", "B", "C_mid")]
        table.add_row(name, *cells, "yes" if fit.identified else "no")
    console.print(table)
    for name, fit in zip(names, fits):
        if fit.reasons:
            console.print(f"{name}:", highlight=False, markup=False)
            say_reasons(console, fit)


def _print(console: Console, c: Comparison) -> None:
    low, high = c.A_interval
    lines = [f"{c.first} against {c.second} (differences are first minus second; margin {c.margin:g})"]
    if math.isfinite(c.A_difference):
        (b1, b2), (i1, i2) = c.refit_b, c.refit_b_intervals
        lines += [
            f"  ceiling: {c.A_difference:+.4f} ({low:+.4f} .. {high:+.4f}): {c.A_verdict}",
            f"  efficiency B at the common ceiling {c.common_ceiling:.4f}: {b1:.3f} ({i1[0]:.3f} .. {i1[1]:.3f}) and "
            f"{b2:.3f} ({i2[0]:.3f} .. {i2[1]:.3f}): {c.B_verdict}",
            f"  chance that the first ceiling is higher: {c.ceiling_probability:.0%}",
        ]
    else:
        lines.append("  ceiling and efficiency: not compared, a curve is not identified")
    met = ", ".join(f"{at:.4g} {c.unit}" for at in c.crossings) or "none found"
    lines.append(f"  crossings of the curves: {met}")
    if math.isfinite(c.difference):
        low, high = c.difference_interval
        lines.append(
            f"  at {c.compute:.6g} {c.unit}: {c.difference:+.4f} ({low:+.4f} .. {high:+.4f}); chance that the first is "
            f"better {c.probability_first_better:.0%}"
        )
    else:
        lines.append(f"  at {c.compute:.6g} {c.unit}: not compared, beyond what identified curves say")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _value(value: float, interval: tuple[float, float]) -> str:
    return "-" if math.isnan(value) else f"{value:.4g} ({interval[0]:.4g} .. {interval[1]:.4g})"
