"""``headrace ablate RECIPE``: one part of the recipe left out or swapped at a time, over seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from headrace.cli.study import Study, carry_out
from headrace.studies.parts import BASELINE, ablation
from headrace.studies.run import Runner


def run_ablate(options: argparse.Namespace, *, console: Console | None = None, runner: Runner | None = None) -> int:
    """Ablate. Returns 0, 1 when a run failed, or 128 + signal. ``runner`` makes one run (default: a real one)."""
    console = console or Console()
    wanted = [word.strip() for word in options.parts.split(",")] if options.parts else []
    found = ablation(options.recipe, options.overrides, wanted)
    for reason in found.skipped:
        console.print(f"not tried: {reason}", markup=False, highlight=False, soft_wrap=True)
    study = Study(
        command="ablate",
        recipe=options.recipe,
        fixed=options.overrides,
        variants=found.variants,
        baseline=BASELINE,
        seeds=options.seeds,
        out=options.out or f"ablations/{Path(options.recipe).stem}",
    )
    return carry_out(study, dry_run=options.dry_run, console=console, runner=runner)
