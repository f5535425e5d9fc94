"""``headrace sweep RECIPE key=a,b,c ...``: the grid of values over seeds, run one after another and compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from headrace.cli.study import Study, carry_out
from headrace.errors import ConfigError
from headrace.studies.grid import find_variant, grid, split_arguments
from headrace.studies.run import Runner


def run_sweep(options: argparse.Namespace, *, console: Console | None = None, runner: Runner | None = None) -> int:
    """Sweep. Returns 0, 1 when a run failed, or 128 + signal. ``runner`` makes one run (default: a real one)."""
    axes, fixed = split_arguments(options.overrides)
    variants = grid(axes)
    if not variants:
        raise ConfigError("sweep needs a key with several values, such as algorithm.loss.ratio_max=4,5,8.")
    baseline = variants[0] if options.baseline is None else find_variant(variants, options.baseline)
    names = "-".join(axis.key.rpartition(".")[2] for axis in axes)
    study = Study(
        command="sweep",
        recipe=options.recipe,
        fixed=fixed,
        variants=variants,
        baseline=baseline.label,
        seeds=options.seeds,
        out=options.out or f"sweeps/{Path(options.recipe).stem}-{names}",
    )
    return carry_out(study, dry_run=options.dry_run, console=console, runner=runner)
