"""Train the bundled model with every recipe of ``recipes/bundled`` and tabulate held-out pass rates before and after.

    .venv/bin/python benchmarks/recipes.py --json OUT [--seeds 0,1,2] [NAME ...]

Each run is a whole ``headrace train`` in processes of its own. About a minute a run on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STUDY = "off-policy"  # the setting of studies, no algorithm of its own
NAMES = tuple(sorted(path.stem for path in (ROOT / "recipes" / "bundled").glob("*.yaml") if path.stem != STUDY))


def train(name: str, seed: int, runs: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """One run of a recipe; its summary. Raises ``RuntimeError`` with the run's last lines when it fails."""
    folder = runs / f"{name}-{seed}"
    arguments = ["train", f"bundled/{name}", f"run.seed={seed}", *overrides, "--runs", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}, seed {seed}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    (run,) = folder.iterdir()
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return summary


def row(name: str, summaries: Sequence[dict[str, Any]]) -> str:
    """A line of the table: mean over seeds, range of the pass rate after."""
    after = [s["pass_rate_after"] for s in summaries]
    before = statistics.mean(s["pass_rate_before"] for s in summaries)
    wall = statistics.median(s["train_wall_s"] for s in summaries)
    lag = max(s["max_lag_trained"] for s in summaries)
    spread = f"{min(after):.3f}..{max(after):.3f}" if len(after) > 1 else ""
    steps = summaries[0]["num_steps"]
    return f"| {name} | {steps} | {before:.3f} | {statistics.mean(after):.3f} | {spread} | {lag} | {wall:.0f} s |"


HEADER = "| recipe | steps | before | after | range | largest lag | training |\n|---|---|---|---|---|---|---|"


def main() -> None:
    parser = argparse.ArgumentParser(description="Every recipe on the bundled model.")
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--runs", default=str(ROOT / "build" / "recipes"))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    found: dict[str, list[dict[str, Any]]] = {}
    print(HEADER, flush=True)
    for name in arguments.names:
        found[name] = [train(name, seed, Path(arguments.runs)) for seed in seeds]
        print(row(name, found[name]), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
