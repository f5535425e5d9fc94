"""What the loss costs: kernels, weights, advantages and metrics of every recipe against its whole training step.

    .venv/bin/python benchmarks/loss_cost.py --json out.json
    .venv/bin/python benchmarks/loss_cost.py --profile ppo     # where the loss side of one recipe spends its time

Each recipe under ``recipes/bundled`` trains one batch of 32k packed tokens on the bundled model, one thread. Two
variants of the same step alternate: the whole one, and one in which forward and backward passes of the models and the
optimiser call are replaced by what they once returned. What is left is the loss side: preparation, advantages, figures
of whole updates, kernels and their backward pass, the value loss, every metric. Processor time, medians; a share is the
median of what is left over the median of the whole without the passes that need no gradient (update-wide figures, a
proximal anchor, a reference), whose share of the whole is reported apart.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from headrace.config.load import bundled_recipes, load_recipe
from headrace.config.sections import Recipe
from headrace.models.lm_head import HeadScores
from headrace.models.locate import resolve_model
from headrace.models.value_model import ValueModel
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.batcher import Cut
from headrace.records import Completion, Group, MicroBatch, PackedBatch, Prompt, Verdict, rollout_from_completions
from headrace.training.optimizer import PolicyOptimizer, UpdateOutcome
from headrace.training.prepare import distinct
from headrace.training.scoring import Scorer
from headrace.training.trainer import PolicyTrainer

GOAL = 0.05  # of a training step, for the dearest recipe
PROMPT_TOKENS = 7
LENGTHS = (4, 40)  # tokens of a completion, even odds; the demo's are 12 to 22 on average
DRIFT = 0.2  # standard deviation of the log ratio, so that clips and searches have work to do


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--tokens", type=int, default=32_768, help="packed tokens of a batch (default: 32768)")
    parser.add_argument("--repeats", type=int, default=3, help="alternations; medians are reported (default: 3)")
    parser.add_argument("--recipes", nargs="*", help="names under recipes/bundled (default: all)")
    parser.add_argument("--profile", metavar="RECIPE", help="only print where this recipe's loss side spends its time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.profile:
        profile(Bench(options.profile, options.tokens))
        return
    names = options.recipes or sorted(name.split("/")[1] for name in bundled_recipes() if name.startswith("bundled/"))
    rows = []
    for name in names:
        rows.append(measure(Bench(name, options.tokens), options.repeats))
        print(line(rows[-1]), file=sys.stderr, flush=True)
    dearest = max(rows, key=lambda row: row["share"])
    report = {
        "tokens": options.tokens,
        "repeats": options.repeats,
        "rows": rows,
        "dearest": dearest["recipe"],
        "dearest_share": dearest["share"],
        "goal": GOAL,
        "met": dearest["share"] < GOAL,
    }
    print(json.dumps({key: value for key, value in report.items() if key != "rows"}))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


@dataclass
class Clock:
    """Processor time spent in passes without a gradient."""

    seconds: float = 0.0


class Bench:
    """One recipe, its trainer and its batch."""

    def __init__(self, name: str, tokens: int) -> None:
        self.name = name
        self.recipe = load_recipe(f"bundled/{name}")
        if self.recipe.algorithm.value is not None:  # a step in which policy and critic train
            self.recipe = load_recipe(f"bundled/{name}", ["algorithm.value.pretrain_steps=0"])
        files = resolve_model(self.recipe.model.path)
        self.trainer = PolicyTrainer(str(files.folder), self.recipe, total_steps=100)
        self.batch = made_batch(self.recipe, tokens, files.vocab_size)
        scorer = Scorer(self.trainer._model, "cpu")
        self.scores = {id(m): scorer.scores_only(self.batch, m) for m in distinct(self.batch)}
        rng = np.random.default_rng(1)
        for micro in distinct(self.batch):
            seen = self.scores[id(micro)].logprob.numpy()
            micro.behaviour_logprob[micro.trainable] = seen + rng.normal(0, DRIFT, len(seen))

    def step(self) -> None:
        """One training step, always the first."""
        self.trainer.version = self.trainer.lineage = 0
        self.trainer.step(self.batch)


def made_batch(recipe: Recipe, tokens: int, vocab: int) -> PackedBatch:
    """Groups of random tokens, half of the completions right, as many as ``tokens`` packed tokens need."""
    rng = np.random.default_rng(0)
    size = recipe.batch.group_size
    builder = BatchBuilder(
        algorithm=recipe.algorithm, batch=recipe.batch, max_completion_tokens=recipe.sampling.max_completion_tokens
    )
    groups: list[Group] = []
    packed = 0
    while packed < tokens:
        groups.append(made_group(rng, len(groups), size, vocab))
        packed += PROMPT_TOKENS + sum(r.length - PROMPT_TOKENS for r in groups[-1].rollouts)
    return builder.build(Cut(step=0, groups=tuple(groups)), lineage=0, max_lag=0)[1]


def made_group(rng: np.random.Generator, number: int, size: int, vocab: int) -> Group:
    ids = rng.integers(2, vocab, PROMPT_TOKENS).astype(np.int32)
    prompt = Prompt(prompt_id=str(number), source="bench", text="", token_ids=ids, row={})
    rollouts = []
    for index in range(size):
        n = int(rng.integers(*LENGTHS))
        completion = Completion(
            request_id="",
            token_ids=rng.integers(2, vocab, n).astype(np.int32),
            logprob=np.full(n, -1.0, np.float32),
            policy_version=np.zeros(n, np.int32),
            finish_reason="stop",
        )
        rollout = rollout_from_completions(
            prompt, completion, rollout_id=f"{number}.{index}", group_id=str(number), seed=number, temperature=1.0
        )
        right = bool(rng.integers(2)) if index > 1 else index == 1  # no group without signal
        object.__setattr__(rollout, "verdict", Verdict(reward=float(right), passed=right))
        rollouts.append(rollout)
    return Group(group_id=str(number), prompt=prompt, admission=number, rollouts=tuple(rollouts))


def measure(bench: Bench, repeats: int) -> dict[str, Any]:
    """Medians of both variants, in seconds of processor time."""
    whole, left, passes = [], [], []
    bench.step()  # lazy libraries and moments
    with models_taken_out(bench):
        bench.step()
    for _ in range(repeats):
        with no_grad_passes() as clock:
            whole.append(timed(bench.step))
        passes.append(clock.seconds)
        with models_taken_out(bench):
            left.append(min(timed(bench.step) for _ in range(2)))
    step_s, loss_s, pass_s = (statistics.median(x) for x in (whole, left, passes))
    return {
        "recipe": bench.name,
        "tokens": bench.batch.num_tokens,
        "trainable": bench.batch.num_trainable,
        "updates": len(bench.batch.updates),
        "step_s": step_s,
        "loss_side_s": loss_s,
        "share": loss_s / (step_s - pass_s),
        "no_grad_passes_s": pass_s,
        "no_grad_share": pass_s / step_s,
        "no_grad_for": " and ".join(reasons(bench)),
    }


def reasons(bench: Bench) -> list[str]:
    """What the passes without a gradient are for."""
    objective = bench.trainer._objective
    found = ["update-wide figures"] if objective.needs_figures else []
    proximal = objective.anchor_for(len(bench.batch.updates)) == "proximal"
    kl = bench.recipe.algorithm.kl
    found += ["anchor"] if proximal or (kl is not None and kl.into == "reward") else []
    return found + (["reference"] if objective.needs_reference else [])


@contextmanager
def no_grad_passes() -> Iterator[Clock]:
    """Adds up what ``Scorer.scores_only`` takes."""
    clock, original = Clock(), Scorer.scores_only

    def scores_only(self: Scorer, batch: PackedBatch, micro: MicroBatch) -> HeadScores:
        begun = time.process_time()
        found = original(self, batch, micro)
        clock.seconds += time.process_time() - begun
        return found

    with patch.object(Scorer, "scores_only", scores_only):
        yield clock


@contextmanager
def models_taken_out(bench: Bench) -> Iterator[None]:
    """Scores, values and the optimiser's answer come from memory; gradients end at one number."""
    shift = torch.zeros((), requires_grad=True)

    def scores(self: Scorer, batch: PackedBatch, micro: MicroBatch, *, entropy_grad: bool = False) -> HeadScores:
        logprob, entropy = bench.scores[id(micro)]
        return HeadScores(logprob + shift, entropy + shift if entropy_grad else entropy)

    def values(self: ValueModel, rows: Any) -> torch.Tensor:
        return torch.full((len(rows.target),), 0.5) + shift

    def values_and_ends(self: ValueModel, rows: Any, ends: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return values(self, rows).detach(), torch.zeros(len(ends))

    def apply(self: PolicyOptimizer) -> UpdateOutcome:
        return UpdateOutcome(applied=True, grad_norm=1.0, lr=1e-4, update_norm=1e-3)

    with ExitStack() as stack:
        for owner, function in ((Scorer, scores), (ValueModel, values), (ValueModel, values_and_ends)):
            stack.enter_context(patch.object(owner, function.__name__, function))
        stack.enter_context(patch.object(PolicyOptimizer, "apply", apply))
        yield


def timed(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def profile(bench: Bench) -> None:
    """Print the functions in which the loss side spends its time."""
    with models_taken_out(bench):
        bench.step()
        profiler = cProfile.Profile()
        profiler.runcall(bench.step)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


def line(row: dict[str, Any]) -> str:
    passes = (
        f"; passes without gradient {row['no_grad_share']:.0%} ({row['no_grad_for']})" if row["no_grad_for"] else ""
    )
    return f"{row['recipe']}: {row['loss_side_s'] * 1e3:.0f} ms of {row['step_s']:.2f} s, {row['share']:.1%}{passes}"


if __name__ == "__main__":
    main()
