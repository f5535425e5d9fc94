"""Asynchronous training against three synchronous baselines of the same code, on the same two cores.

    .venv/bin/python benchmarks/async_vs_sync.py --json OUT

The baselines are ``async.max_lag=0`` with (``1t``) one thread a side, (``2t``) decode 1 and train 2 threads, (``dp``)
two data-parallel generators and two data-parallel trainers, so that both cores are busy in both phases. All of them
verify in parallel and refill slots. Variants alternate within one run; a figure is the median over alternations.

Two settings. ``demo``: the demo's lengths, 256 completions a step. ``idle``: 64 completions a step, lognormal lengths
(p99/p50 about 9) and 0.5 to 1 s of environment latency, where synchronous training mostly waits. For the latter the
limit is ``best synchronous step time / max(T_generate, T_train)``, both sides timed at the same time, a core each.

Only steps in the steady state count: the first ``WARM`` are left out, and so are the last ``max_lag + 1``, which need
no new samples and would flatter asynchrony.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from headrace.build import CONTROLLER, ControllerRole, RunPlan
from headrace.cli.train import role_specs
from headrace.config.load import load_recipe
from headrace.config.sections import Recipe
from headrace.models.locate import resolve_model
from headrace.pipeline.seeds import derive_seed
from headrace.protocols import Sampler
from headrace.records import Prompt, Rollout, rollout_from_completions
from headrace.runtime.supervisor import Supervisor
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.metrics_log import read_metrics

WARM = 4
MEDIAN_LENGTH, SIGMA, LONGEST = 24.0, 0.95, 230  # p99 / p50 = exp(2.326 * .95) = 9.1
LATENCY_S = (0.5, 1.0)

VARIANTS: dict[str, tuple[str, ...]] = {
    "async": (),
    "sync_1t": ("async.max_lag=0",),
    "sync_2t": ("async.max_lag=0", "trainer.threads=2"),
    "sync_dp": ("async.max_lag=0", "trainer.num_ranks=2", "generator.num_generators=2"),
}


@dataclass(frozen=True)
class Setting:
    """One workload; ``overrides`` are the recipe's, ``factory`` the controller's."""

    name: str
    overrides: tuple[str, ...]
    async_overrides: tuple[str, ...]
    factory: str
    steps: int  # of the asynchronous runs
    sync_steps: int


DEMO = Setting(
    name="demo",
    overrides=("eval.num_prompts=1", "eval.every_steps=0", "checkpoint.every_minutes=0"),
    async_overrides=("async.max_lag=1",),
    factory="headrace.build:controller",
    steps=18,
    sync_steps=17,  # the same steps are counted as of the asynchronous runs: completions grow while the policy learns
)
IDLE = Setting(
    name="idle",
    overrides=(
        "eval.num_prompts=1",
        "eval.every_steps=0",
        "checkpoint.every_minutes=0",
        "batch.groups_per_step=8",
        "batch.group_size=8",
        f"sampling.max_completion_tokens={LONGEST}",
    ),
    # Sequences that wait for their environment hold no slot, but many are under way. A long completion and its wait
    # take about 3 s, fifteen steps: with a bound of 12 both sides waited for it a quarter of their time.
    async_overrides=("async.max_lag=24", "generator.num_slots=192", "async.max_ready_batches=24"),
    factory="async_vs_sync:controller",
    steps=60,
    sync_steps=14,
)


def drawn_length(seed: int) -> int:
    """Tokens of a completion, lognormal, a function of the rollout's seed alone."""
    z = np.random.default_rng(seed).standard_normal()
    return int(min(max(round(MEDIAN_LENGTH * math.exp(SIGMA * z)), 1), LONGEST))


class HeavyTailed:
    """Completions of a drawn length, then a wait, as for a tool or a grader elsewhere."""

    async def run(self, prompt: Prompt, sampler: Sampler, *, group_id: str, seed: int) -> list[Rollout]:
        completion = await sampler.generate(prompt.token_ids, max_tokens=drawn_length(seed), stop_token_ids=())
        low, high = LATENCY_S
        await asyncio.sleep(low + (high - low) * (derive_seed("latency", seed) % 1000) / 1000)
        # The text after the drawn length is no answer; half of the rewards are made right by the seed's parity.
        rollout = rollout_from_completions(
            prompt,
            completion,
            rollout_id=f"{group_id}/{seed}",
            group_id=group_id,
            seed=seed,
            temperature=sampler.temperature,
        )
        return [replace(rollout, finish_reason="stop")]


def half_right(completions: Sequence[str], **columns: Any) -> list[float]:
    """Rewards that differ within every group, whatever is written: the loss must have something to do."""
    return [float(sum(map(ord, text)) % 2) for text in completions]


def controller(context: Any, *, plan: RunPlan) -> ControllerRole:
    """The controller with the heavy-tailed environment."""
    return ControllerRole(context, plan, HeavyTailed())


def run_variant(setting: Setting, variant: str, runs: Path, steps: int) -> dict[str, float]:
    """One real run; seconds a step in the steady state, and where the time went."""
    overrides = [f"run.steps={steps}", *setting.overrides, *VARIANTS[variant]]
    if variant == "async":
        overrides += setting.async_overrides
    else:
        overrides += [o for o in setting.async_overrides if not o.startswith("async.")]
    if setting is IDLE:
        overrides.append(f"reward.verifier={Path(__file__).resolve()}:half_right")
    recipe = load_recipe("demo", overrides)
    folder = Path(tempfile.mkdtemp(dir=runs, prefix=f"{setting.name}-{variant}-"))
    started = time.monotonic()
    totals = _supervise(recipe, folder, setting.factory)
    rows = read_metrics(folder)
    first, last = WARM, len(rows) - 1 - (recipe.async_.max_lag + 1)
    seconds = (rows[last]["time_s"] - rows[first]["time_s"]) / (last - first)
    used = [row["metrics"] for row in rows[first : last + 1]]
    return {
        "step_s": seconds,
        "samples_per_s": recipe.batch.groups_per_step * recipe.batch.group_size / seconds,
        "train_s": statistics.mean(m["trainer/step_s"] + m["weights/publish_s"] for m in used),
        "trainer_idle_frac": totals["trainer_idle_frac"],
        "generator_idle_frac": totals["generator_idle_frac"],
        "max_lag_trained": totals["max_lag_trained"],
        "length_p99_over_p50": statistics.mean(m["rollout/length_p99"] / m["rollout/length_p50"] for m in used),
        "wall_s": time.monotonic() - started,
    }


def _supervise(recipe: Recipe, folder: Path, factory: str) -> dict[str, Any]:
    model = resolve_model(recipe.model.path)
    plan = RunPlan(
        recipe=recipe,
        run_folder=str(folder),
        model_folder=str(model.folder),
        context_length=model.context_length,
        num_parameters=model.num_parameters_estimate,
        attempt=begin_attempt(folder),
    )
    specs = [replace(s, factory=factory) if s.name == CONTROLLER else s for s in role_specs(plan)]
    totals: dict[str, Any] = {}

    def on_event(role: str, event: Any) -> None:
        if event.get("kind") == "totals":
            totals.update(event)

    here = str(Path(__file__).resolve().parent)
    Supervisor(folder, specs, primary=CONTROLLER, import_path=[here]).run(on_event=on_event)
    return totals


# ---- the limit: each side alone, the other core under the other role's load ---------------------------------------


def _decode_load(seconds: float, warm_s: float, results: Any) -> None:
    """Decode heavy-tailed completions with full slots; puts seconds a batch of 64."""
    import torch

    from headrace.engines.embedded import EmbeddedEngine
    from headrace.records import GenerationRequest
    from headrace.tasks.build import make_sources
    from headrace.tasks.text import TextCodec

    torch.set_num_threads(1)
    recipe = load_recipe("demo", list(IDLE.overrides))
    files = resolve_model("bundled")
    codec = TextCodec(files.folder)
    prompts, _ = make_sources(recipe, codec, files.context_length)
    engine = EmbeddedEngine(str(files.folder), num_slots=128)
    numbers = iter(range(10**9))

    def submit() -> None:
        number = next(numbers)
        prompt = prompts.at(number // 8)
        seed = derive_seed(0, "limit", number)
        engine.submit(
            GenerationRequest(
                request_id=str(number),
                prefix_ids=prompt.token_ids,
                seed=seed,
                temperature=1.0,
                max_tokens=drawn_length(seed),
                stop_token_ids=(),
            )
        )

    for _ in range(160):
        submit()
    begun, done, counted_from = time.monotonic(), 0, 0.0
    while (now := time.monotonic()) - begun < seconds:
        if now - begun > warm_s and not counted_from:
            counted_from, done = now, 0
        ended = engine.step()
        done += len(ended)
        for _ in ended:
            submit()
    results.put(("generate", 64 * (time.monotonic() - counted_from) / done))


def _train_load(seconds: float, warm_s: float, results: Any) -> None:
    """Train batches of 64 such completions; puts seconds a step, publication included."""
    import torch

    from headrace.advantages.group_relative import with_advantages
    from headrace.packing.batch import pack
    from headrace.records import Group, Verdict
    from headrace.tasks.build import make_sources
    from headrace.tasks.text import TextCodec
    from headrace.training.trainer import PolicyTrainer

    torch.set_num_threads(1)
    recipe = load_recipe("demo", list(IDLE.overrides))
    files = resolve_model("bundled")
    prompts, _ = make_sources(recipe, TextCodec(files.folder), files.context_length)
    trainer = PolicyTrainer(str(files.folder), recipe, total_steps=10**6)

    def batch(step: int) -> Any:
        groups = []
        for g in range(8):
            prompt = prompts.at(step * 8 + g)
            members = []
            for m in range(8):
                seed = derive_seed(0, "limit", (step * 8 + g) * 8 + m)
                rollout = _made_up(prompt, seed, step)
                members.append(replace(rollout, verdict=Verdict(reward=float(m % 2), passed=bool(m % 2))))
            groups.append(Group(group_id=str(g), prompt=prompt, admission=g, rollouts=tuple(members)))
        return pack(
            with_advantages(groups, mean="group", scale="group"),
            step=step,
            lineage=0,
            max_lag=0,
            loss_weight=recipe.algorithm.loss_weight,
            num_minibatches=1,
            num_epochs=1,
            micro_batch_tokens=recipe.batch.micro_batch_tokens,
        )

    begun, times = time.monotonic(), []
    while time.monotonic() - begun < seconds:
        packed = batch(trainer.version)
        started = time.monotonic()
        trainer.step(packed)
        trainer.publishable()
        if started - begun > warm_s:
            times.append(time.monotonic() - started)
    results.put(("train", statistics.mean(times)))  # as a live run: batches differ in size


def _made_up(prompt: Prompt, seed: int, version: int) -> Rollout:
    """A rollout with the right shape; its tokens are arbitrary, which costs the trainer the same."""
    from headrace.records import Completion

    length = drawn_length(seed)
    ids = np.random.default_rng(seed).integers(3, 20, length).astype(np.int32)
    completion = Completion(
        request_id=str(seed),
        token_ids=ids,
        logprob=np.full(length, -1.0, np.float32),
        policy_version=np.full(length, version, np.int32),
        finish_reason="stop",
    )
    return rollout_from_completions(prompt, completion, rollout_id=str(seed), group_id="", seed=seed, temperature=1.0)


def side_times(seconds: float = 20.0, warm_s: float = 8.0) -> dict[str, float]:
    """T_generate and T_train, both measured at the same time on a core each."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=f, args=(seconds, warm_s, results)) for f in (_decode_load, _train_load)]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=seconds * 10 + 120) for _ in processes)
    for process in processes:
        process.join()
    return found


# ---- the whole ----------------------------------------------------------------------------------------------------


def compare(setting: Setting, alternations: int, steps: int, runs: Path, console: Console) -> dict[str, Any]:
    """All variants in turn, ``alternations`` times; medians and ratios."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    sides: list[dict[str, float]] = []
    for turn in range(alternations):
        for variant in VARIANTS:
            found = run_variant(setting, variant, runs, steps if variant == "async" else setting.sync_steps)
            results[variant].append(found)
            console.print(
                f"{setting.name} {turn + 1}/{alternations} {variant:8s} {found['step_s']:.3f} s a step, "
                f"trainer idle {found['trainer_idle_frac']:.0%}, generator idle {found['generator_idle_frac']:.0%}"
            )
        if setting is IDLE:
            sides.append(side_times())
            console.print(f"{setting.name} {turn + 1}/{alternations} sides    {sides[-1]}")
    median = {v: {k: statistics.median(r[k] for r in rows) for k in rows[0]} for v, rows in results.items()}
    ratio = {v: _ratios(results[v], results["async"]) for v in VARIANTS if v != "async"}
    report: dict[str, Any] = {
        "ratio_vs_sync_1t": statistics.median(ratio["sync_1t"]),
        "ratio_vs_sync_2t": statistics.median(ratio["sync_2t"]),
        "ratio_vs_sync_dp": statistics.median(ratio["sync_dp"]),
        "steps": steps,
        "median": median,
        "all": results,
    }
    best = min((v for v in VARIANTS if v != "async"), key=lambda v: median[v]["step_s"])
    report["best_sync"] = best
    report["ratio_vs_best_sync"] = report[f"ratio_vs_{best}"]
    report["best_sync_core_idle_frac"] = _core_idle(median[best], best)
    if sides:
        report["t_generate_s"] = statistics.median(s["generate"] for s in sides)
        report["t_train_s"] = statistics.median(s["train"] for s in sides)
        slower = max(report["t_generate_s"], report["t_train_s"])
        report["limit"] = median[best]["step_s"] / slower
        report["frac_of_limit"] = slower / median["async"]["step_s"]
    return report


def _ratios(sync: list[dict[str, float]], asynchronous: list[dict[str, float]]) -> list[float]:
    """Speed of async over sync, alternation by alternation."""
    return [s["step_s"] / a["step_s"] for s, a in zip(sync, asynchronous, strict=True)]


def _core_idle(row: dict[str, float], variant: str) -> float:
    """Share of the two cores' time in which a synchronous run does nothing."""
    processes = 2 if variant == "sync_dp" else 1
    threads = 2 if variant == "sync_2t" else 1
    busy = processes * ((1 - row["generator_idle_frac"]) + threads * (1 - row["trainer_idle_frac"]))
    return max(0.0, 1 - busy / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", required=True, help="where the figures go")
    parser.add_argument("--alternations", type=int, default=7)
    parser.add_argument("--settings", nargs="*", default=["demo", "idle"], choices=["demo", "idle"])
    parser.add_argument("--steps", type=int, default=0, help="steps of a run (default: the setting's)")
    options = parser.parse_args()
    console = Console(highlight=False)
    report: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "alternations": options.alternations,
    }
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as runs:
        for setting in (DEMO, IDLE):
            if setting.name in options.settings:
                steps = options.steps or setting.steps
                report[setting.name] = compare(setting, options.alternations, steps, Path(runs), console)
    Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    for name in options.settings:
        shown = {k: v for k, v in report[name].items() if not isinstance(v, dict)}
        console.print(name, shown)


if __name__ == "__main__":
    main()
