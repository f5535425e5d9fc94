"""Runs the real controller, ledger, gate, batcher, assembler, pool, packing and checkpoints against scripted roles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.curation.curated_source import CuratedSource, curated_source
from headrace.errors import WaitTimeout
from headrace.pipeline.assembler import Assembler, Attempts
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.checkpoint import Checkpoint, CheckpointStore, ControllerState
from headrace.pipeline.controller import Controller
from headrace.pipeline.evaluation import Evaluator
from headrace.pipeline.generator_pool import GeneratorPool, Link
from headrace.pipeline.ledger import Outstanding
from headrace.pipeline.parts import Parts
from headrace.pipeline.sim.board import Board
from headrace.pipeline.sim.chance import Chance
from headrace.pipeline.sim.history import History, WatchedChanges
from headrace.pipeline.sim.links import link_pair
from headrace.pipeline.sim.numbered_prompts import NumberedPrompts
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.scripted_generator import ScriptedGenerator
from headrace.pipeline.sim.scripted_trainer import ScriptedTrainer
from headrace.pipeline.sim.scripted_verifier import ScriptedVerifier
from headrace.pipeline.sim.virtual_loop import run_virtual
from headrace.tasks.single_turn import SingleTurn

Alter = Callable[[Parts], Parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a scenario.

    ``finished`` says that all steps were done, ``error`` what the run ended with (None when it ended by itself), and
    ``role_errors`` what scripted roles died of: a batch the trainer refused, a request a generator could not make sense
    of. ``left`` are the groups outstanding at the end, ``num_admitted`` the admission numbers given out (earlier parts
    of a resumed run included), ``end_s`` the virtual time.
    """

    scenario: Scenario
    history: History
    version: int
    finished: bool
    error: Exception | None
    role_errors: tuple[Exception, ...]
    left: tuple[Outstanding, ...]
    num_admitted: int
    end_s: float


def simulate(
    scenario: Scenario, *, folder: Path | None = None, resume: Checkpoint | None = None, alter: Alter | None = None
) -> Outcome:
    """Run a scenario to its end. ``folder`` is the run folder (none: no checkpoints); ``resume`` goes on from there.

    ``alter`` may replace parts of the controller, to see what a worse or a broken one does.
    """
    return run_virtual(_simulate(scenario, folder, resume, alter or (lambda parts: parts)))


async def _simulate(scenario: Scenario, folder: Path | None, resume: Checkpoint | None, alter: Alter) -> Outcome:
    state = resume.controller_state() if resume is not None else None
    lineage = state.lineage + 1 if state is not None else 0
    chance, board = Chance(scenario.seed), Board(state.version if state is not None else 0)
    ours, theirs = link_pair("trainer", chance, scenario.link_s)
    trainer = ScriptedTrainer(scenario, board, theirs, lineage=lineage)
    roles = [trainer.run()]
    links: dict[str, Link] = {}
    for index in range(scenario.num_generators):
        name = f"generator-{index}"
        links[name], end = link_pair(name, chance, scenario.link_s)
        roles.append(ScriptedGenerator(index, scenario, board, end).run())
    history = History(stepped_before=state.spent.compute.steps if state is not None else 0)
    parts = alter(_parts(scenario, history, ours, links, folder, state, lineage))
    controller = Controller(parts)
    if isinstance(parts.changed, WatchedChanges):
        parts.changed.ledger = controller.ledger
    tasks = [asyncio.create_task(role) for role in roles]
    if scenario.stop_at_s is not None:
        asyncio.get_running_loop().call_later(scenario.stop_at_s, controller.request_stop)
    finished, error = await _run(controller, scenario.limit_s)
    for task in tasks:
        task.cancel()
    ends = [trainer.error, *await asyncio.gather(*tasks, return_exceptions=True)]
    final = controller.state()
    return Outcome(
        scenario=scenario,
        history=history,
        version=trainer.version,
        finished=finished,
        error=error,
        role_errors=tuple(e for e in ends if isinstance(e, Exception) and not isinstance(e, TimeoutError)),
        left=final.entries,
        num_admitted=final.next_admission,
        end_s=asyncio.get_running_loop().time(),
    )


async def _run(controller: Controller, limit_s: float) -> tuple[bool, Exception | None]:
    try:
        async with asyncio.timeout(limit_s):
            return await controller.run(), None
    except TimeoutError:
        return False, WaitTimeout(f"the simulated run was not over after {limit_s:g} s of virtual time")
    except Exception as error:
        return False, error


def _parts(
    scenario: Scenario,
    history: History,
    trainer: Link,
    links: dict[str, Link],
    folder: Path | None,
    state: ControllerState | None,
    lineage: int,
) -> Parts:
    recipe = scenario.recipe()
    clock = asyncio.get_running_loop().time
    changed = WatchedChanges(history)
    prompts = NumberedPrompts(scenario.num_prompts)
    curated = _curated(scenario, prompts)
    pool = GeneratorPool(links, changed, clock)
    assembler = Assembler(environment=SingleTurn(), judge=ScriptedVerifier(scenario), decode=_decode, pool=pool)
    return Parts(
        recipe=recipe,
        trainer=trainer,
        pool=pool,
        changed=changed,
        assembler=assembler,
        train_source=curated or prompts,
        curated=curated,
        evaluator=_evaluator(scenario, assembler, pool, lineage) if scenario.evaluates else None,
        attempts=_attempts(scenario, "train", lineage),
        builder=BatchBuilder(algorithm=recipe.algorithm, batch=recipe.batch, max_completion_tokens=64),
        recorder=history,
        checkpoints=CheckpointStore(folder, keep=scenario.keep) if folder is not None else None,
        max_lag=scenario.lag_schedule(),
        temperature=lambda step: 1.0,
        clock=clock,
        resume=state,
    )


def _curated(scenario: Scenario, prompts: NumberedPrompts) -> CuratedSource | None:
    part = scenario.recipe().algorithm.pass_rate
    if part is None:
        return None
    return curated_source(
        prompts, part, group_size=scenario.group_size, groups_per_step=scenario.groups_per_step, seed=scenario.seed
    )


def _evaluator(scenario: Scenario, assembler: Assembler, pool: GeneratorPool, lineage: int) -> Evaluator:
    return Evaluator(
        assembler=assembler,
        pool=pool,
        source=NumberedPrompts(scenario.eval_prompts, "held-out"),
        attempts=_attempts(scenario, "eval", lineage),
        num_prompts=scenario.eval_prompts,
        samples_per_prompt=2,
        timeout_s=scenario.timeout_s,
    )


def _attempts(scenario: Scenario, purpose: str, lineage: int) -> Attempts:
    return Attempts(
        temperature=1.0,
        max_tokens=scenario.max_tokens,
        stop_token_ids=(0,),
        weights="policy" if purpose == "train" else "pinned",
        seed=scenario.seed,
        purpose=purpose,
        lineage=lineage,
    )


def _decode(ids: object) -> str:
    return str(list(ids))  # type: ignore[call-overload]
