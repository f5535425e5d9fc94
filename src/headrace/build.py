"""The one place where a recipe's names become classes: what each process of a run is made of.

``controller``, ``generator`` and ``trainer`` are the factories that role processes call (see ``runtime/role_spec.py``).
Heavy imports stay inside the function of the process that needs them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config.sections import Recipe
from headrace.curation.lag import LAG_SCHEDULES, Bound, constant_lag
from headrace.curation.schedules import Schedule, scheduled

if TYPE_CHECKING:
    from headrace.pipeline.generator_role import GeneratorRole
    from headrace.pipeline.trainer_role import FollowerRole, TrainerRole
    from headrace.protocols import Environment
    from headrace.tasks.text import TextCodec
    from headrace.transports.role_context import RoleContext

CONTROLLER, TRAINER = "controller", "trainer"
PROBE_LIMIT = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest accepted probe error in nats, by dtype: float32 engines agree to 1e-5, bfloat16 ones differ by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What every process of a run has to know. ``resume`` is the folder of the checkpoint to go on from, or None."""

    recipe: Recipe
    run_folder: str
    model_folder: str
    context_length: int
    num_parameters: int
    lineage: int = 0
    attempt: int = 1
    resume: str | None = None
    answer_key: str = "answer"

    @property
    def resume_step(self) -> int | None:
        return int(Path(self.resume).name.removeprefix("step_")) if self.resume else None


def trainer_names(recipe: Recipe) -> list[str]:
    """The ranks of the trainer; the first one answers and publishes."""
    return [TRAINER, *(f"{TRAINER}-{i}" for i in range(1, recipe.trainer.num_ranks))]


def generator_names(recipe: Recipe) -> list[str]:
    return [f"generator-{i}" for i in range(recipe.generator.num_generators)]


# ---- trainer -----------------------------------------------------------------------------------------------------


def trainer(context: RoleContext, *, plan: RunPlan) -> TrainerRole | FollowerRole:
    """One rank of the trainer."""
    from headrace.pipeline.trainer_role import FollowerRole, TrainerRole

    names = trainer_names(plan.recipe)
    rank = names.index(context.name)

    def make() -> Any:
        import torch

        from headrace.training.ranks import Ranks
        from headrace.training.trainer import PolicyTrainer

        torch.set_num_threads(context.threads)
        torch.manual_seed(plan.recipe.run.seed)
        meeting = Path(plan.run_folder) / "logs" / f"ranks-{plan.attempt}"
        return PolicyTrainer(
            plan.model_folder,
            plan.recipe,
            total_steps=plan.recipe.run.steps,
            lineage=plan.lineage,
            ranks=Ranks.join(rank, len(names), str(meeting)),
        )

    resume = str(Path(plan.resume) / "trainer") if plan.resume else None
    if rank > 0:
        return FollowerRole(make, context.peer(CONTROLLER), resume=resume)
    return TrainerRole(make, context.peer(CONTROLLER), context.weight_writer, resume=resume)


# ---- generator ---------------------------------------------------------------------------------------------------


def generator(context: RoleContext, *, plan: RunPlan) -> GeneratorRole:
    """A generator's role, with the embedded engine."""
    from headrace.pipeline.generator_role import GeneratorRole

    recipe = plan.recipe

    def make() -> Any:
        import torch

        from headrace.engines.embedded import EmbeddedEngine

        torch.set_num_threads(context.threads)
        return EmbeddedEngine(
            plan.model_folder,
            num_slots=recipe.generator.num_slots,
            dtype=recipe.model.dtype,
            device=recipe.generator.device,
            deterministic=recipe.generator.deterministic,
        )

    return GeneratorRole(
        make,
        context.peer(CONTROLLER),
        context.weight_reader(timeout_s=recipe.run.timeout_s),
        lineage=plan.lineage,
        timeout_s=recipe.run.timeout_s,
        probe_limit=PROBE_LIMIT[recipe.model.dtype],
    )


# ---- controller --------------------------------------------------------------------------------------------------


class ControllerRole:
    """Builds the controller inside its process and runs it on an event loop.

    ``environment`` takes the place of the one the recipe asks for.
    """

    def __init__(self, context: RoleContext, plan: RunPlan, environment: Environment | None = None) -> None:
        self._context = context
        self._plan = plan
        self._environment = environment

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from headrace.pipeline.controller import Controller
        from headrace.pipeline.trainer_link import TrainerLink
        from headrace.transports.channel import AsyncChannel

        names = generator_names(self._plan.recipe)
        links = {name: await AsyncChannel.open(self._context.peer(name)) for name in names}
        ranks = [await AsyncChannel.open(self._context.peer(name)) for name in trainer_names(self._plan.recipe)]
        trainer_link = TrainerLink(ranks[0], ranks[1:])
        verifiers = _verifier_pool(self._plan.recipe)
        recorder = None
        try:
            await verifiers.start()
            parts = _controller_parts(self._context, self._plan, links, trainer_link, verifiers, self._environment)
            recorder = parts.recorder
            controller = Controller(parts)
            loop = asyncio.get_running_loop()

            def on_stop(reason: str) -> None:
                loop.call_soon_threadsafe(controller.request_stop)

            self._context.on_stop(on_stop)
            finished = await controller.run()
            self._context.done({"finished": finished, "version": controller.ledger.trainer_version})
        finally:
            if recorder is not None:
                recorder.close()
            await verifiers.close()


def controller(context: RoleContext, *, plan: RunPlan) -> ControllerRole:
    """The controller's role."""
    return ControllerRole(context, plan)


def environment_of(recipe: Recipe, codec: TextCodec) -> Environment:
    """One completion a prompt, or one whose thinking is interrupted (``algorithm.interruption``)."""
    from headrace.tasks.interrupted import Interrupted, interruption_of
    from headrace.tasks.single_turn import SingleTurn

    rule = interruption_of(recipe, codec)
    return SingleTurn() if rule is None else Interrupted(rule)


def lag_bound(recipe: Recipe) -> Bound:
    """The bound on lag by step."""
    bound, part = recipe.async_.max_lag, recipe.async_.schedule
    if part is None:
        return constant_lag(bound)
    return LAG_SCHEDULES[part.shape](bound, part.end, recipe.run.steps, part.final_frac)


def sampling_temperature(recipe: Recipe) -> Schedule:
    """The temperature of training completions by step."""
    start, part = recipe.sampling.temperature, recipe.sampling.schedule
    if part is None:
        return scheduled(start, start, recipe.run.steps, shape="constant")
    return scheduled(start, part.end, recipe.run.steps, shape=part.shape, final_frac=part.final_frac)


def _verifier_pool(recipe: Recipe) -> Any:
    from headrace.verifiers.pool import VerifierPool
    from headrace.verifiers.spec import spec_of

    reward = recipe.reward
    return VerifierPool(spec_of(recipe), num_workers=reward.num_workers, time_limit_s=reward.time_limit_s)


def _controller_parts(
    context: RoleContext,
    plan: RunPlan,
    links: Mapping[str, Any],
    trainer_link: Any,
    verifiers: Any,
    environment: Environment | None,
) -> Any:
    from headrace.pipeline.assembler import Assembler, Attempts
    from headrace.pipeline.batch_builder import BatchBuilder
    from headrace.pipeline.checkpoint import Checkpoint, CheckpointStore
    from headrace.pipeline.evaluation import Evaluator
    from headrace.pipeline.generator_pool import GeneratorPool
    from headrace.pipeline.parts import Parts
    from headrace.pipeline.signal import Changed
    from headrace.tasks.build import make_sources
    from headrace.tasks.text import TextCodec

    recipe = plan.recipe
    state = Checkpoint(folder=Path(plan.resume), version=-1).controller_state() if plan.resume else None
    codec = TextCodec(plan.model_folder)
    source, held_out = make_sources(recipe, codec, plan.context_length)
    curated = _curated(recipe, source)
    changed = Changed()
    pool = GeneratorPool(dict(links), changed, time.monotonic)

    def attempts(purpose: str, temperature: float, weights: Any) -> Attempts:
        return Attempts(
            temperature=temperature,
            max_tokens=recipe.sampling.max_completion_tokens,
            stop_token_ids=codec.eos_token_ids,
            weights=weights,
            seed=recipe.run.seed if purpose == "train" else 0,
            purpose=purpose,
            lineage=plan.lineage,
        )

    assembler = Assembler(
        environment=environment or environment_of(recipe, codec), judge=verifiers.judge, decode=codec.decode, pool=pool
    )
    return Parts(
        recipe=recipe,
        trainer=trainer_link,
        pool=pool,
        changed=changed,
        assembler=assembler,
        train_source=curated or source,
        curated=curated,
        evaluator=Evaluator(
            assembler=assembler,
            pool=pool,
            source=held_out,
            attempts=attempts("eval", recipe.eval.temperature, "pinned"),
            num_prompts=recipe.eval.num_prompts,
            samples_per_prompt=recipe.eval.samples_per_prompt,
            timeout_s=recipe.run.timeout_s,
        ),
        attempts=attempts("train", recipe.sampling.temperature, "policy"),
        builder=BatchBuilder(
            algorithm=recipe.algorithm,
            batch=recipe.batch,
            max_completion_tokens=recipe.sampling.max_completion_tokens,
        ),
        recorder=_recorder(context, plan, codec, state),
        checkpoints=CheckpointStore(plan.run_folder, keep=recipe.checkpoint.keep),
        max_lag=lag_bound(recipe),
        temperature=sampling_temperature(recipe),
        clock=time.monotonic,
        resume=state,
    )


def _curated(recipe: Recipe, source: Any) -> Any:
    """The source without prompts that are solved nearly always; None when none retire."""
    from headrace.curation.curated_source import curated_source

    if recipe.algorithm.pass_rate is None:
        return None
    batch = recipe.batch
    return curated_source(
        source,
        recipe.algorithm.pass_rate,
        group_size=batch.group_size,
        groups_per_step=batch.groups_per_step,
        seed=recipe.run.seed,
    )


def _recorder(context: RoleContext, plan: RunPlan, codec: Any, resume: Any) -> Any:
    from headrace.pipeline.recorder import RunRecorder
    from headrace.pipeline.totals import Spent, Totals
    from headrace.tracking.eval_log import EvalLog
    from headrace.tracking.rollout_store import RolloutStore

    recipe, attempt = plan.recipe, plan.attempt
    threads = (
        recipe.trainer.threads * recipe.trainer.num_ranks + recipe.generator.threads * recipe.generator.num_generators
    )
    return RunRecorder(
        tracker=_tracker(plan),
        rollouts=RolloutStore(plan.run_folder, attempt=attempt),
        evals=EvalLog(plan.run_folder, attempt=attempt),
        totals=Totals(
            clock=time.monotonic,
            num_parameters=plan.num_parameters,
            num_threads=threads,
            before=resume.spent if resume else Spent(),
        ),
        decode=codec.decode,
        report=context.report,
        algorithm=recipe.algorithm,
        answer_key=plan.answer_key,
        eval_temperature=recipe.eval.temperature,
        verifier_name=recipe.reward.verifier,
        max_error_frac=recipe.reward.max_error_frac,
    )


def _tracker(plan: RunPlan) -> Any:
    """metrics.jsonl always, the others by ``tracking.also``."""
    from headrace.tracking.fanout import Fanout
    from headrace.tracking.metrics_log import MetricsLog

    trackers: list[Any] = [MetricsLog(plan.run_folder, attempt=plan.attempt)]
    trackers.extend(_TRACKERS[name](plan) for name in plan.recipe.tracking.also)
    return Fanout(trackers)


def _tensorboard(plan: RunPlan) -> Any:
    from headrace.tracking.tensorboard import TensorBoardTracker

    return TensorBoardTracker(Path(plan.run_folder) / "tensorboard", resume_step=plan.resume_step)


def _wandb(plan: RunPlan) -> Any:
    from headrace.tracking.wandb import WandbTracker

    config = plan.recipe.model_dump(mode="json", by_alias=True)
    return WandbTracker(plan.run_folder, run_id=Path(plan.run_folder).name, config=config)


_TRACKERS = {"tensorboard": _tensorboard, "wandb": _wandb}
