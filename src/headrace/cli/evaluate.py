"""``headrace eval RUN_OR_MODEL``: held-out pass rate of a run's newest checkpoint, or of any model folder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.cli.run_folder import RECIPE_FILE
from headrace.config.load import load
from headrace.config.sections import Recipe
from headrace.errors import DataError
from headrace.metrics.evaluation import evaluation_stats
from headrace.models.locate import ModelFiles, read_model_folder, resolve_model
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.seeds import derive_seed
from headrace.records import Completion, GenerationRequest, Group, Prompt, Rollout, Verdict, rollout_from_completions


def run_eval(
    run_or_model: str, overrides: Sequence[str] = (), *, recipe_name: str = "demo", console: Console | None = None
) -> int:
    """Evaluate and print a table. A run brings its own recipe; a model is judged by ``recipe_name``'s task."""
    console = console or Console()
    recipe, files, what = _what(run_or_model, overrides, recipe_name)
    stats = asyncio.run(_evaluate(recipe, files))
    _print(console, what, recipe, stats)
    return 0


def _what(run_or_model: str, overrides: Sequence[str], recipe_name: str) -> tuple[Recipe, ModelFiles, str]:
    folder = Path(run_or_model)
    if not (folder / RECIPE_FILE).is_file():
        return load(recipe_name, overrides).recipe, resolve_model(run_or_model), run_or_model
    recipe = load(folder, overrides).recipe
    newest = CheckpointStore(folder, keep=recipe.checkpoint.keep).newest()
    if newest is None:
        raise DataError(f"run {folder} has no complete checkpoint to evaluate")
    return recipe, read_model_folder(newest.trainer_folder / "model"), f"{folder.name}, step {newest.version}"


async def _evaluate(recipe: Recipe, files: ModelFiles) -> dict[str, Any]:
    """The evaluation of ``pipeline/evaluation.py`` without a pipeline: same prompts, same seeds, one engine."""
    from headrace.tasks.build import make_sources
    from headrace.tasks.text import TextCodec
    from headrace.verifiers.pool import VerifierPool
    from headrace.verifiers.spec import spec_of

    codec = TextCodec(files.folder)
    _, source = make_sources(recipe, codec, files.context_length)
    prompts = [source.at(i) for i in range(min(recipe.eval.num_prompts, len(source)))]
    completions = await asyncio.to_thread(_sample, recipe, files, prompts, codec.eos_token_ids)
    pool = VerifierPool(spec_of(recipe), num_workers=recipe.reward.num_workers, time_limit_s=recipe.reward.time_limit_s)
    await pool.start()
    try:
        groups = await asyncio.gather(
            *(_judged(recipe, pool, codec, prompt, i, completions) for i, prompt in enumerate(prompts))
        )
    finally:
        await pool.close()
    return evaluation_stats(groups)


def _sample(
    recipe: Recipe, files: ModelFiles, prompts: Sequence[Prompt], stop: tuple[int, ...]
) -> dict[str, Completion]:
    import torch

    from headrace.engines.embedded import EmbeddedEngine

    torch.set_num_threads(recipe.generator.threads)
    limit = recipe.sampling.max_completion_tokens
    engine = EmbeddedEngine(
        str(files.folder),
        num_slots=recipe.generator.num_slots,
        dtype=recipe.model.dtype,
        device=recipe.generator.device,
        deterministic=recipe.generator.deterministic,
        max_len=max(len(p.token_ids) for p in prompts) + limit,
    )
    for i, prompt in enumerate(prompts):
        for member in range(recipe.eval.samples_per_prompt):
            engine.submit(
                GenerationRequest(
                    request_id=f"{i}-{member}",
                    prefix_ids=prompt.token_ids,
                    seed=derive_seed(0, "eval", i, member),
                    temperature=recipe.eval.temperature,
                    max_tokens=limit,
                    stop_token_ids=stop,
                )
            )
    done: dict[str, Completion] = {}
    while engine.num_active or engine.num_waiting:
        done |= {completion.request_id: completion for completion in engine.step()}
    return done


async def _judged(
    recipe: Recipe, pool: Any, codec: Any, prompt: Prompt, number: int, completions: dict[str, Completion]
) -> Group:
    async def one(member: int) -> Rollout:
        completion = completions[f"{number}-{member}"]
        verdict: Verdict = await pool.judge(codec.decode(completion.token_ids), prompt.row)
        rollout = rollout_from_completions(
            prompt,
            completion,
            rollout_id=f"eval-{number}-{member}",
            group_id=f"eval-{number}",
            seed=derive_seed(0, "eval", number, member),
            temperature=recipe.eval.temperature,
        )
        return replace(rollout, verdict=verdict)

    rollouts = await asyncio.gather(*(one(m) for m in range(recipe.eval.samples_per_prompt)))
    return Group(group_id=f"eval-{number}", prompt=prompt, admission=number, rollouts=tuple(rollouts))


def _print(console: Console, what: str, recipe: Recipe, stats: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=f"held-out evaluation: {what}", show_header=False)
    table.add_row("prompts x samples", f"{stats['num_prompts']} x {stats['samples_per_prompt']}")
    table.add_row("temperature", f"{recipe.eval.temperature:g}")
    table.add_row("pass rate (mean@n)", f"{stats['mean_at_n']:.3f} +- {stats['standard_error']:.3f}")
    for k, value in stats["pass_at_k"].items():
        table.add_row(f"pass@{k}", f"{value:.3f}")
    table.add_row("length mean / p50 / p99", "{length_mean:.1f} / {length_p50:.0f} / {length_p99:.0f}".format(**stats))
    table.add_row("truncated", f"{stats['truncated_frac']:.1%}")
    table.add_row("could not be judged", f"{stats['unjudged_frac']:.1%}")
    console.print(table)
