"""``headrace eval RUN_OR_MODEL``: held-out pass rate of a run's newest checkpoint, or of any model folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headrace.build import environment_of
from headrace.cli.run_folder import RECIPE_FILE
from headrace.config.load import load
from headrace.config.sections import Recipe
from headrace.errors import DataError
from headrace.metrics.evaluation import evaluation_stats
from headrace.models.locate import ModelFiles, read_model_folder, resolve_model
from headrace.pipeline.assembler import Assembler, Attempts, gather_or_cancel
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.signal import Changed
from headrace.pipeline.tasks import cancel, first_of
from headrace.records import Group, Prompt

if TYPE_CHECKING:
    from headrace.pipeline.engine_link import EngineLink
    from headrace.protocols import Engine
    from headrace.tasks.text import TextCodec
    from headrace.verifiers.pool import VerifierPool


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
    """The evaluation of a run without a run: same prompts, seeds and environment, one engine in this process."""
    from headrace.pipeline.engine_link import EngineLink
    from headrace.tasks.build import make_sources
    from headrace.tasks.text import TextCodec
    from headrace.verifiers.pool import VerifierPool
    from headrace.verifiers.spec import spec_of

    codec = TextCodec(files.folder)
    _, source = make_sources(recipe, codec, files.context_length)
    prompts = [source.at(i) for i in range(min(recipe.eval.num_prompts, len(source)))]
    longest = max(len(p.token_ids) for p in prompts) + recipe.sampling.max_completion_tokens
    link = EngineLink(partial(_engine, recipe, files, longest))
    verifiers = VerifierPool(
        spec_of(recipe), num_workers=recipe.reward.num_workers, time_limit_s=recipe.reward.time_limit_s
    )
    await verifiers.start()
    try:
        groups = await _groups(recipe, codec, link, verifiers, prompts)
    finally:
        await verifiers.close()
        link.close()
    return evaluation_stats(groups)


def _engine(recipe: Recipe, files: ModelFiles, max_len: int) -> Engine:
    import torch

    from headrace.engines.embedded import EmbeddedEngine

    torch.set_num_threads(recipe.generator.threads)
    return EmbeddedEngine(
        str(files.folder),
        num_slots=recipe.generator.num_slots,
        dtype=recipe.model.dtype,
        device=recipe.generator.device,
        deterministic=recipe.generator.deterministic,
        max_len=max_len,
    )


async def _groups(
    recipe: Recipe, codec: TextCodec, link: EngineLink, verifiers: VerifierPool, prompts: Sequence[Prompt]
) -> list[Group]:
    pool = GeneratorPool({"engine": link}, Changed(), time.monotonic)
    assembler = Assembler(
        environment=environment_of(recipe, codec), judge=verifiers.judge, decode=codec.decode, pool=pool
    )
    how = Attempts(
        temperature=recipe.eval.temperature,
        max_tokens=recipe.sampling.max_completion_tokens,
        stop_token_ids=codec.eos_token_ids,
        weights="policy",
        seed=0,
        purpose="eval",
    )
    await pool.start(recipe.run.timeout_s)
    state, size = pool.states["engine"], recipe.eval.samples_per_prompt
    groups: list[Group] = []

    async def sample() -> None:
        attempts = [assembler.group(p, state, how, admission=i, position=i, size=size) for i, p in enumerate(prompts)]
        groups.extend(await gather_or_cancel(attempts))

    main, readers = asyncio.create_task(sample()), pool.readers()
    try:
        await first_of(main, readers)
    finally:
        await cancel([main, *readers])
    return groups


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
