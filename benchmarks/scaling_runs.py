"""Do our own curves end where half of them says? Four recipes, three seeds, the bundled model, one run after another.

    .venv/bin/python benchmarks/scaling_runs.py --out runs/scaling --json out.json       # hours on two cores
    .venv/bin/python benchmarks/scaling_runs.py --out runs/scaling --recipes scalerl --seeds 0 --steps 60   # a look

The bundled task has a ceiling near 1, which tells nothing. With 24 completion tokens the longer sums cannot be worked
out and the ceiling lies near .68. Compute is in trained tokens. Every run is fitted up to half of its compute, and the
forecast of its end compared with the evaluation that came. A run that is finished in ``--out`` is not made again.

An evaluation has at most a quarter of the generator beside training, so one of 2,048 completions takes about as long as
ten steps, and those wanted meanwhile are skipped: at lr 1e-4 and 80 steps six were made, three of them in the first
half, and the half was refused. Hence many steps and a low learning rate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from headrace.report.summary import SUMMARY_FILE
from headrace.scaling.backtest import judge
from headrace.scaling.fit import fit_runs
from headrace.scaling.forecast import MARGIN
from headrace.scaling.made import MadeForecast
from headrace.scaling.readers.run_log import points_from_evals
from headrace.scaling.run_end import forecast_end
from headrace.tracking.eval_log import read_evals

UNIT = "tokens_trained"
COMMON = (
    "model.path=bundled", "task.name=arithmetic", "sampling.max_completion_tokens=24", "optimizer.lr=4e-5",
    "optimizer.warmup=2", "batch.groups_per_step=32", "batch.group_size=8", "batch.num_minibatches=1",
    "async.max_lag=2", "eval.num_prompts=1024", "eval.samples_per_prompt=2", "eval.every_steps=2",
)  # fmt: skip
RECIPES: dict[str, tuple[str, ...]] = {
    "grpo": (),
    "dapo": ("algorithm.overlong.buffer_tokens=4",),
    "cispo": ("algorithm.overlong.buffer_tokens=4",),
    "scalerl": ("algorithm.interruption=null",),
}
"""Recipes, and what of them has to change for completions of 24 tokens."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--recipes", default=",".join(RECIPES), help=f"default: {','.join(RECIPES)}")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    rows = []
    for recipe in options.recipes.split(","):
        for seed in map(int, options.seeds.split(",")):
            folder = run(options.out / f"{recipe}-{seed}", recipe, seed, options.steps)
            rows.append({"recipe": recipe, "seed": seed, **measure(folder)})
            print(line(rows[-1]), flush=True)
    held = sum(row["close"] for row in rows)
    print(f"forecast within {MARGIN:g} + 2 evaluation errors: {held} of {len(rows)}")
    if options.json:
        options.json.write_text(json.dumps({"steps": options.steps, "rows": rows}, indent=2) + "\n", encoding="utf-8")


def run(parent: Path, recipe: str, seed: int, steps: int) -> Path:
    """The folder of the finished run under ``parent``, made if it is not there."""
    done = sorted(parent.glob(f"*/{SUMMARY_FILE}"))
    if not done:
        command = [sys.executable, "-m", "headrace.cli.main", "train", recipe, "--runs", str(parent), *COMMON]
        subprocess.run([*command, *RECIPES[recipe], f"run.seed={seed}", f"run.steps={steps}"], check=True)
        done = sorted(parent.glob(f"*/{SUMMARY_FILE}"))
    return done[-1].parent


def measure(folder: Path) -> dict[str, Any]:
    """The fit of the whole run, and what its first half said about its end."""
    rows = read_evals(folder)
    whole = fit_runs([points_from_evals(rows, name=folder.name, compute=UNIT)])
    last = rows[-1]
    half = [row for row in rows if 2 * row["compute"][UNIT] <= last["compute"][UNIT]]
    made = forecast_end(half, int(last["version"]), compute=UNIT)
    tests = judge([made], rows)
    test = tests[0] if tests else None
    said = {name: getattr(whole, name) for name in ("A", "B", "C_mid", "R0")}
    ends = {f"interval_{name}": list(whole.intervals[name]) for name in ("A", "B", "C_mid")}
    return {
        **said,
        **ends,
        "whole_identified": whole.identified,
        "half_evaluations": made.num_points,
        "half_in_C_mid": made.compute / made.C_mid if made.C_mid else None,
        "half_identified": made.identified,
        "half_reasons": list(made.reasons),
        "forecast": made.value,
        "interval": made.interval,
        "came": last["mean_at_n"],
        "came_error": test.error if test else None,
        "inside": test.inside if test else None,
        "close": is_close(made, last["mean_at_n"], test.error if test else 0.0),
    }


def is_close(made: MadeForecast, came: float, error: float) -> bool:
    """Within the paper's margin and two errors of the evaluation; a refused forecast is not."""
    return made.value is not None and abs(made.value - came) <= MARGIN + 2 * error


def line(row: dict[str, Any]) -> str:
    """One row of the table, in Markdown."""
    low, high = row["interval_A"]
    said = (
        f"{row['forecast']:.3f} ({row['interval'][0]:.3f}..{row['interval'][1]:.3f})" if row["interval"] else "refused"
    )
    return (
        f"| {row['recipe']} | {row['seed']} | {row['A']:.3f} ({low:.3f}..{high:.3f}) | {row['B']:.2f} | "
        f"{row['C_mid']:.3g} | {row['half_evaluations']} | {said} | {row['came']:.3f} | {row['inside']} |"
    )


if __name__ == "__main__":
    main()
