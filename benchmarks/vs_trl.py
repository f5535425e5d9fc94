"""Headrace against TRL's ``GRPOTrainer``: same model, prompts, reward, batch and cores.

    make venv-trl
    .venv/bin/python benchmarks/vs_trl.py --json out.json          # about 15 minutes on two cores
    .venv/bin/python benchmarks/vs_trl.py --json out.json --quick  # about 3 minutes, a smoke run

Both sides get the same two cores: TRL as many threads as serve it best, Headrace one for the trainer and one for the
generator. Three figures, each ours / TRL's:

``samples_per_s_ratio``           completions trained a second. The learning rate is next to nothing, so that both sides
                                  sample from the base model all the time: equal work. Runs alternate; the first steps
                                  of each warm up, the last ones (where an asynchronous pipeline runs dry) do not count.
``time_to_target_ratio``          seconds from the first sampling to a training pass rate (moving mean) of the target,
                                  same hyper-parameters; ratio of the medians over seeds.
``time_to_target_ratio_best_lr``  the same, each side at its own best learning rate of one grid.

What is not the same on both sides is listed under ``differences`` in the result. Use a quiet machine: two-threaded TRL
suffers most from company.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from vs_trl_sides import REPOSITORY, Curve, HeadraceSide, RunSpec, Side, TRLSide, cut_at_target, trl_settings

from headrace.config.load import load_recipe

STILL_LR = 1e-12  # a learning rate at which the policy stays the base model
NUM_CORES = 2
DIFFERENCES = (
    "TRL generates, judges and trains in turn, on the newest weights; Headrace does so at the same time, on weights at "
    "most async.max_lag steps old, and weighs tokens by the capped importance ratio (TRL's is 1 by construction).",
    "TRL divides advantages by the group's standard deviation + 1e-4, Headrace by it + 1e-6.",
    "TRL generates a whole batch with transformers' generate and pads to its longest row; Headrace refills slots.",
    "TRL judges inside the trainer's process; Headrace in a verifier process of its own, on the same cores.",
    "Headrace writes metrics and every completion to disk, TRL is run with logging and saving off.",
    "Sampling noise differs; prompts, their order and the verifier are the same code.",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run."""

    alternations: int
    warmup_steps: int
    measured_steps: int
    tail_steps: int
    seeds: tuple[int, ...]
    grid: tuple[float, ...]
    max_steps: int
    target: float
    window: int
    trl_ways: tuple[tuple[int, tuple[str, ...]], ...]  # (threads, options) to choose the fastest of


# The static cache is no candidate: it was about 15 % slower here on one thread; with two it was not tried.
TRL_WAYS: tuple[tuple[int, tuple[str, ...]], ...] = tuple(
    (threads, (f"--per-device-batch={rows}",)) for threads in (1, 2) for rows in (256, 64)
)
FULL = Plan(
    alternations=5,
    warmup_steps=5,
    measured_steps=15,
    tail_steps=5,
    seeds=(0, 1, 2),
    grid=(1e-4, 2e-4, 3e-4, 5e-4),
    max_steps=60,
    target=0.7,
    window=3,
    trl_ways=TRL_WAYS,
)
QUICK = Plan(
    alternations=3,
    warmup_steps=3,
    measured_steps=5,
    tail_steps=4,
    seeds=(0,),
    grid=(2e-4, 3e-4),
    max_steps=60,
    target=0.7,
    window=3,
    trl_ways=((1, ("--per-device-batch=64",)), (2, ("--per-device-batch=64",))),
)


# ---- samples a second --------------------------------------------------------------------------------------------


def measure_throughput(trl: Side, headrace: Side, plan: Plan) -> dict[str, Any]:
    """Alternating runs at a standing policy; medians over the alternations."""
    segments: dict[str, list[dict[str, float]]] = {trl.name: [], headrace.name: []}
    for number in range(plan.alternations):
        for side in _in_turn(trl, headrace, number):
            segments[side.name].append(_segment(side, plan, seed=number))
            say(f"alternation {number + 1}/{plan.alternations}: {side.name} {_rate(segments[side.name][-1])}")
    medians = {name: median(s["samples_per_s"] for s in rows) for name, rows in segments.items()}
    return {
        "samples_per_s_ratio": medians[headrace.name] / medians[trl.name],
        "samples_per_s": medians,
        "ratios": [
            ours["samples_per_s"] / theirs["samples_per_s"]
            for ours, theirs in zip(segments[headrace.name], segments[trl.name], strict=True)
        ],
        "rows_per_step": {
            name: sorted({s["num_rows"] / s["num_steps"] for s in rows}) for name, rows in segments.items()
        },
        "mean_completion_tokens": {
            name: sum(s["num_completion_tokens"] for s in rows) / sum(s["num_rows"] for s in rows)
            for name, rows in segments.items()
        },
        "alternations": segments,
    }


def _segment(side: Side, plan: Plan, *, seed: int) -> dict[str, float]:
    last = plan.warmup_steps + plan.measured_steps
    tail = plan.tail_steps if side.name == HeadraceSide.name else 0
    curve = side.run(RunSpec(lr=STILL_LR, seed=seed, steps=last + tail))
    return curve.between(plan.warmup_steps, last)


def choose_trl_way(trl: TRLSide, plan: Plan) -> tuple[TRLSide, list[dict[str, Any]]]:
    """The fastest way to run TRL here, by its best step of short runs, and what every way took."""
    tried: list[dict[str, Any]] = []
    for threads, options in plan.trl_ways:
        steps = trl.run_in_way(threads, options).run(RunSpec(lr=STILL_LR, seed=0, steps=4)).steps
        durations = [after.time_s - before.time_s for before, after in pairwise(steps)]
        tried.append({"threads": threads, "options": list(options), "step_s": min(durations)})
        say(f"TRL with {threads} threads {' '.join(options)}: {min(durations):.2f} s a step")
    best = min(tried, key=lambda row: row["step_s"])
    return trl.run_in_way(best["threads"], best["options"]), tried


# ---- time to the target ------------------------------------------------------------------------------------------


def measure_grid(trl: Side, headrace: Side, plan: Plan, *, recipe_lr: float) -> dict[str, Any]:
    """Time to the target for every learning rate, seed and side; all figures come from these runs."""
    rates = sorted({*plan.grid, recipe_lr})
    cells = []
    for lr in rates:
        for number, seed in enumerate(plan.seeds):
            spec = RunSpec(lr=lr, seed=seed, steps=plan.max_steps, target=plan.target, window=plan.window)
            for side in _in_turn(trl, headrace, number):
                cells.append(_cell(cut_at_target(side.run(spec))))
                say(f"lr {lr:g} seed {seed}: {side.name} {_reach(cells[-1])}")
    medians = {name: {lr: _median_time(cells, name, lr) for lr in rates} for name in (trl.name, headrace.name)}
    best = {name: min(rates, key=lambda lr: times[lr]) for name, times in medians.items()}
    ours, theirs = medians[headrace.name], medians[trl.name]
    return {
        "time_to_target_ratio": _ratio(ours[recipe_lr], theirs[recipe_lr]),
        "time_to_target_ratio_best_lr": _ratio(ours[best[headrace.name]], theirs[best[trl.name]]),
        "recipe_lr": recipe_lr,
        "best_lr": best,
        "ratio_by_lr": {f"{lr:g}": _ratio(ours[lr], theirs[lr]) for lr in rates},
        "median_s": {name: {f"{lr:g}": _finite(t) for lr, t in times.items()} for name, times in medians.items()},
        "runs": cells,
    }


def _cell(curve: Curve) -> dict[str, Any]:
    spec = curve.spec
    assert spec.target is not None
    reached = curve.time_to(spec.target, spec.window)
    return {
        "side": curve.side,
        "lr": spec.lr,
        "seed": spec.seed,
        "reached": reached is not None,
        "seconds": reached[0] if reached else None,
        "steps": reached[1] if reached else None,
        "num_rows": sum(s.num_rows for s in curve.steps),
        "pass_rates": [round(s.pass_rate, 4) for s in curve.steps],
        "times_s": [round(s.time_s, 3) for s in curve.steps],
    }


def _median_time(cells: Sequence[dict[str, Any]], side: str, lr: float) -> float:
    """Median over seeds; a run that never reached the target counts as endless."""
    times = [c["seconds"] for c in cells if c["side"] == side and c["lr"] == lr]
    return median(math.inf if t is None else t for t in times)


def _ratio(ours: float, theirs: float) -> float | None:
    return ours / theirs if math.isfinite(ours) and math.isfinite(theirs) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ---- the run -----------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace, plan: Plan, work: Path) -> dict[str, Any]:
    cores = sorted(os.sched_getaffinity(0))[:NUM_CORES]
    os.sched_setaffinity(0, cores)  # children inherit it
    recipe = load_recipe(options.recipe, options.overrides)
    headrace = HeadraceSide(options.recipe, work, options.overrides)
    trl, ways = choose_trl_way(TRLSide(options.trl_python, options.recipe, work, options.overrides), plan)
    load_before = os.getloadavg()
    throughput = measure_throughput(trl, headrace, plan)
    grid = {} if options.only_throughput else measure_grid(trl, headrace, plan, recipe_lr=recipe.optimizer.lr)
    keys = ("time_to_target_ratio", "time_to_target_ratio_best_lr")
    return {
        "samples_per_s_ratio": throughput.pop("samples_per_s_ratio"),
        **{key: grid.pop(key, None) for key in keys},
        "throughput": throughput,
        "time_to_target": grid,
        "trl_ways": ways,
        "settings": {
            **asdict(plan),
            "cores": cores,
            "headrace_threads": "trainer 1, generator 1",
            "trl_options": trl_settings(recipe),
            "max_lag": recipe.async_.max_lag,
        },
        "differences": list(DIFFERENCES),
        "versions": _versions(trl.run(RunSpec(lr=STILL_LR, seed=0, steps=1)).versions),
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "num_cpus": os.cpu_count(),
            "load_average_before": load_before,
            "load_average_after": os.getloadavg(),
        },
    }


def _versions(trl: dict[str, Any]) -> dict[str, Any]:
    ours = {name: version(name) for name in ("headrace", "torch", "transformers")}
    return {"headrace": {**ours, "python": platform.python_version()}, "trl": trl}


def _in_turn(trl: Side, headrace: Side, number: int) -> tuple[Side, Side]:
    """Who begins changes from turn to turn, so that a slow minute does not always meet the same side."""
    return (trl, headrace) if number % 2 == 0 else (headrace, trl)


def _rate(segment: dict[str, float]) -> str:
    rows = segment["num_rows"] / segment["num_steps"]
    return f"{segment['samples_per_s']:.0f} samples/s, {rows:g} rows a step, {segment['median_step_s']:.2f} s a step"


def _reach(cell: dict[str, Any]) -> str:
    if not cell["reached"]:
        return f"did not reach the target in {len(cell['pass_rates'])} steps"
    return f"{cell['seconds']:.1f} s, {cell['steps']} steps"


def say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="a smoke run of about 3 minutes")
    parser.add_argument("--only-throughput", action="store_true", help="leave the time to the target out")
    parser.add_argument("--recipe", default="demo")
    parser.add_argument(
        "--trl-python", type=Path, default=REPOSITORY / ".venv-trl" / "bin" / "python", help="made by `make venv-trl`"
    )
    parser.add_argument("--work", type=Path, help="keep run folders and logs here (default: a temporary folder)")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value", help="changes to the recipe, on both sides")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if not options.trl_python.exists():
        raise SystemExit(f"{options.trl_python} does not exist; `make venv-trl` makes it")
    plan = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).resolve()
        report = measure(options, plan, work)
    print(json.dumps({key: report[key] for key in report if key.endswith(("_ratio", "_ratio_best_lr"))}, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
