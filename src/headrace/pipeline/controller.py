"""The controller: two coroutines. ``_produce`` admits prompts while the gate is open, ``_consume`` feeds the trainer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from headrace.config.sections import Recipe
from headrace.curation.zero_variance import RULES
from headrace.errors import ConfigError, HeadraceError, WaitTimeout
from headrace.pipeline.assembler import Assembler, Attempts
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.batcher import Cut, cut
from headrace.pipeline.checkpoint import CheckpointStore, ControllerState
from headrace.pipeline.evaluation import Evaluation, Evaluator
from headrace.pipeline.gate import AdmissionGate
from headrace.pipeline.generator_pool import GeneratorPool, GeneratorState, Link
from headrace.pipeline.ledger import LagSchedule, Ledger, Outstanding
from headrace.pipeline.messages import Save, Saved, Stepped, Stop, TrainerReady, TrainStep
from headrace.pipeline.signal import Changed
from headrace.protocols import PromptSource
from headrace.records import Group, PackedBatch

PREFETCH = 2  # steps sent to the trainer at most: the one it runs and the one it takes next
TICK_S = 0.5  # how often waits look at clocks and time-outs
MAX_REFILLS_PER_GROUP = 20  # zero_variance 'refill': groups thrown away in a row, per group wanted, before giving up


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One step, as the recorder sees it."""

    groups: tuple[Group, ...]
    batch: PackedBatch
    stepped: Stepped


class Recorder(Protocol):
    """Writes down what happens. May raise ``VerifierBroken`` to end the run."""

    def phase(self, name: str) -> None: ...

    def first_admission(self, pool: GeneratorPool) -> None: ...

    def trained(self, trained: Trained, pool: GeneratorPool) -> None: ...

    def last_update(self, pool: GeneratorPool) -> None: ...

    def dropped(self, entries: tuple[Outstanding, ...], *, step: int, reason: str) -> None: ...

    def evaluated(self, evaluation: Evaluation, pool: GeneratorPool) -> None: ...

    def checkpointed(self, version: int, error: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class Parts:
    """What a controller is made of; ``build.py`` and the simulation fill it."""

    recipe: Recipe
    trainer: Link
    pool: GeneratorPool
    changed: Changed
    assembler: Assembler
    train_source: PromptSource
    evaluator: Evaluator | None
    attempts: Attempts
    builder: BatchBuilder
    recorder: Recorder
    checkpoints: CheckpointStore | None
    max_lag: LagSchedule
    clock: Callable[[], float]
    resume: ControllerState | None = None


@dataclass(slots=True)
class _Timer:
    """Something done every N steps and every M minutes (0 = not)."""

    every_steps: int
    every_s: float
    last_time: float
    last_step: int = 0

    def due(self, step: int, now: float) -> bool:
        by_step = self.every_steps > 0 and step > self.last_step and step % self.every_steps == 0
        return by_step or (self.every_s > 0 and step > self.last_step and now - self.last_time >= self.every_s)

    def done(self, step: int, now: float) -> None:
        self.last_step, self.last_time = step, now


@dataclass(slots=True)
class _Inflight:
    """Steps the trainer has been given, and what was in them."""

    cuts: dict[int, tuple[tuple[Group, ...], PackedBatch]] = field(default_factory=dict)


class Controller:
    """Runs to the last step, or to a clean stop. ``run`` returns True when all steps were done."""

    def __init__(self, parts: Parts) -> None:
        self._p = parts
        recipe = parts.recipe
        state = parts.resume
        self._total = recipe.run.steps
        version = state.version if state else 0
        self.ledger = Ledger(
            groups_per_step=recipe.batch.groups_per_step, max_lag=parts.max_lag, trainer_version=version
        )
        self._gate = AdmissionGate(total_steps=self._total, max_ready_batches=recipe.async_.max_ready_batches)
        self._next_position = state.next_position if state else 0
        self._next_admission = state.next_admission if state else 0
        self._reissue: list[Outstanding] = []
        self._refills_in_a_row = state.num_admitted_refills if state else 0
        if state:
            for entry in state.entries:
                if entry.finished:
                    self.ledger.admit(entry)
                else:
                    self._reissue.append(entry)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._inflight = _Inflight()
        self._saved: asyncio.Future[Saved] | None = None
        self._stop = False
        self._failure: BaseException | None = None
        self._last_change = 0.0
        self._admitted_any = False
        self._eval_task: asyncio.Task[None] | None = None
        self._eval_wanted = False
        self._eval_timer = _Timer(recipe.eval.every_steps, recipe.eval.every_minutes * 60, 0.0, version)
        self._save_timer = _Timer(recipe.checkpoint.every_steps, recipe.checkpoint.every_minutes * 60, 0.0, version)

    # ---- the run -------------------------------------------------------------------------------------------------

    async def run(self) -> bool:
        """Start, evaluate, train, evaluate, checkpoint. Raises what went wrong in any part of the run."""
        await self._start()
        background = self._p.pool.readers() + [asyncio.create_task(self._read_trainer(), name="read-trainer")]
        main = asyncio.create_task(self._main(), name="main")
        try:
            await _first(main, background)
        finally:
            everything = [main, *background, *self._tasks.values(), *([self._eval_task] if self._eval_task else [])]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
        return self.ledger.trainer_version >= self._total

    def request_stop(self) -> None:
        """End after the steps the trainer has; the checkpoint is written. Call from the event loop's thread."""
        self._stop = True
        self._p.changed.notify()

    async def _start(self) -> None:
        self._p.recorder.phase("loading model")
        timeout_s = self._p.recipe.run.timeout_s
        try:
            ready = await asyncio.wait_for(self._p.trainer.recv(), timeout_s)
        except TimeoutError:
            raise WaitTimeout(f"waited {timeout_s:g} s for the trainer to load its model") from None
        if not isinstance(ready, TrainerReady):
            raise HeadraceError(f"the trainer began with {type(ready).__name__}, not TrainerReady")
        if ready.version != self.ledger.trainer_version:
            raise HeadraceError(
                f"the trainer resumed at version {ready.version}, the controller at {self.ledger.trainer_version}"
            )
        await self._p.pool.start(timeout_s)

    async def _main(self) -> None:
        now = self._p.clock()
        self._eval_timer.last_time = self._save_timer.last_time = self._last_change = now
        if self.ledger.trainer_version == 0 and not self._stop:
            self._p.recorder.phase("evaluating before")
            await self._evaluate()
        self._p.recorder.phase("training")
        producer = asyncio.create_task(self._produce(), name="produce")
        try:
            await self._consume()
        finally:
            producer.cancel()
            await asyncio.gather(producer, return_exceptions=True)
        self._p.recorder.last_update(self._p.pool)
        if not self._stop:
            await self._finish_evaluations()
        for task in self._tasks.values():
            task.cancel()
        await self._checkpoint()
        self._p.pool.stop()
        self._p.trainer.send(Stop())

    async def _finish_evaluations(self) -> None:
        self._p.recorder.phase("evaluating after")
        self._eval_wanted = False
        if self._eval_task is not None:
            await self._eval_task
        await self._evaluate()

    # ---- producing -----------------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        while not self._stop:
            ticket = self._p.changed.ticket()
            while (state := self._admissible()) is not None:
                self._admit(state)
            await ticket.wait()

    def _admissible(self) -> GeneratorState | None:
        """The generator with most room on which the gate is open, or None."""
        size = self._p.recipe.batch.group_size
        # One group more than the slots hold waits inside the engine, so that a freed slot is filled at once.
        roomy = [s for s in self._p.pool.states.values() if s.num_policy < s.num_slots]
        open_ = [s for s in roomy if self._gate.decide(self.ledger, s.acked_version).open]
        return min(open_, key=lambda s: s.num_policy / max(s.num_slots, size)) if open_ else None

    def _admit(self, state: GeneratorState) -> None:
        if not self._admitted_any:
            self._admitted_any = True
            self._p.recorder.first_admission(self._p.pool)
        if self._reissue:
            old = self._reissue.pop(0)
            admission, position = old.admission, old.position
        else:
            admission, position = self._next_admission, self._next_position
            self._next_admission += 1
            self._next_position += 1
        prompt = self._p.train_source.at(position)
        entry = Outstanding(
            admission=admission,
            group_id=f"{self._p.attempts.purpose}-{admission}",
            prompt=prompt,
            position=position,
            generator=state.name,
            admitted_version=state.acked_version,
        )
        self.ledger.admit(entry)
        state.num_policy += self._p.recipe.batch.group_size
        task = asyncio.create_task(self._run_group(entry, state), name=entry.group_id)
        self._tasks[admission] = task
        task.add_done_callback(lambda t: self._group_ended(t, entry, state))

    async def _run_group(self, entry: Outstanding, state: GeneratorState) -> None:
        group = await self._p.assembler.group(
            entry.prompt,
            state,
            self._p.attempts,
            admission=entry.admission,
            position=entry.position,
            size=self._p.recipe.batch.group_size,
        )
        self._file(entry, group)

    def _file(self, entry: Outstanding, group: Group) -> None:
        """Apply the zero-variance rule to a finished group and put it where it belongs."""
        kept = RULES[self._p.recipe.algorithm.zero_variance](group)
        if kept is not None:
            self._refills_in_a_row = 0
            self.ledger.finish(entry.admission, kept)
            return
        removed = self.ledger.remove(entry.admission)
        self._refills_in_a_row += 1
        if removed is not None:
            self._p.recorder.dropped((_with_group(removed, group),), step=self.ledger.next_step, reason="zero variance")
        if self._refills_in_a_row > MAX_REFILLS_PER_GROUP * self._p.recipe.batch.groups_per_step:
            raise ConfigError(
                f"algorithm.zero_variance: refill threw away {self._refills_in_a_row} groups in a row: every prompt is "
                "solved always or never. Use harder or easier prompts, a larger batch.group_size, or 'shrink'."
            )

    def _group_ended(self, task: asyncio.Task[None], entry: Outstanding, state: GeneratorState) -> None:
        self._tasks.pop(entry.admission, None)
        state.num_policy -= self._p.recipe.batch.group_size
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._last_change = self._p.clock()
        self._p.changed.notify()

    # ---- consuming -----------------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        while self.ledger.trainer_version < self._total:
            ticket = self._p.changed.ticket()
            if self._failure is not None:
                raise self._failure
            idle = not self._inflight.cuts
            if self._stop and idle:
                return
            if idle and self._save_due(self.ledger.trainer_version):
                await self._checkpoint()
                continue
            if self._may_send() and (batch := cut(self.ledger, at_bound=self._p.recipe.async_.at_bound)) is not None:
                self._send(batch)
                continue
            await self._wait(ticket)

    def _may_send(self) -> bool:
        step = self.ledger.next_step
        boundary = bool(self._inflight.cuts) and self._save_due(step)
        return not self._stop and len(self._inflight.cuts) < PREFETCH and step < self._total and not boundary

    def _save_due(self, version: int) -> bool:
        return self._p.checkpoints is not None and self._save_timer.due(version, self._p.clock())

    def _send(self, batch: Cut) -> None:
        for entry in batch.dropped:
            self._cancel(entry)
        if batch.dropped:
            self._p.recorder.dropped(batch.dropped, step=batch.step, reason="lag")
        groups, packed = self._p.builder.build(
            batch, lineage=self._p.attempts.lineage, max_lag=self._p.max_lag(batch.step)
        )
        self._inflight.cuts[batch.step] = (tuple(groups), packed)
        self._p.trainer.send(TrainStep(batch=packed))
        self._p.changed.notify()

    def _cancel(self, entry: Outstanding) -> None:
        task = self._tasks.get(entry.admission)
        if task is not None:
            task.cancel()

    async def _wait(self, ticket: asyncio.Event) -> None:
        """Wait for a change; meanwhile mind the time-outs, and name what is missing when one runs out."""
        timeout_s = self._p.recipe.run.timeout_s
        try:
            await asyncio.wait_for(ticket.wait(), TICK_S)
        except TimeoutError:
            self._p.pool.check_acknowledged(timeout_s)
            if self._p.clock() - self._last_change > timeout_s:
                raise WaitTimeout(f"nothing moved for {timeout_s:g} s; waiting for {self._missing()}") from None

    def _missing(self) -> str:
        if self._inflight.cuts:
            return f"the trainer to finish step {min(self._inflight.cuts)}"
        unfinished = [e for e in self.ledger.waiting() if not e.finished]
        if unfinished:
            first = unfinished[0]
            return (
                f"{len(unfinished)} unfinished groups, the oldest being group {first.admission} on generator "
                f"'{first.generator}' (its completions or their verdicts)"
            )
        return "the admission gate to open"

    async def _read_trainer(self) -> None:
        while True:
            message = await self._p.trainer.recv()
            match message:
                case Stepped():
                    self._on_stepped(message)
                case Saved():
                    assert self._saved is not None
                    self._saved.set_result(message)
                case _:
                    raise HeadraceError(f"the trainer sent an unexpected {type(message).__name__}")
            self._last_change = self._p.clock()
            self._p.changed.notify()

    def _on_stepped(self, message: Stepped) -> None:
        step = message.result.step
        groups, packed = self._inflight.cuts.pop(step)
        self.ledger.complete(step)
        self._p.pool.published(message.result.version)
        self._p.recorder.trained(Trained(groups=groups, batch=packed, stepped=message), self._p.pool)
        now = self._p.clock()
        if message.result.version < self._total and self._eval_timer.due(message.result.version, now):
            self._eval_timer.done(message.result.version, now)
            self._want_evaluation()

    # ---- evaluation and checkpoints ------------------------------------------------------------------------------

    def _want_evaluation(self) -> None:
        """Start an evaluation beside training; while one runs, one more waits."""
        if self._eval_task is not None and not self._eval_task.done():
            self._eval_wanted = True
            return
        self._eval_wanted = False
        self._eval_task = asyncio.create_task(self._evaluate(), name="evaluate")
        self._eval_task.add_done_callback(self._evaluation_ended)

    def _evaluation_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if task.exception() is not None:
            self._failure = self._failure or task.exception()
        elif self._eval_wanted:
            self._want_evaluation()
        self._p.changed.notify()

    async def _evaluate(self) -> None:
        if self._p.evaluator is None:
            return
        target = self.ledger.trainer_version
        while any(s.acked_version < target for s in self._p.pool.states.values()):
            ticket = self._p.changed.ticket()
            await self._wait(ticket)
        evaluation = await self._p.evaluator.run()
        self._p.recorder.evaluated(evaluation, self._p.pool)

    async def _checkpoint(self) -> None:
        """Write a checkpoint at a step boundary. A disk that is full costs the checkpoint, not the run."""
        store = self._p.checkpoints
        version = self.ledger.trainer_version
        self._save_timer.done(version, self._p.clock())
        if store is None:
            return
        error = ""
        try:
            folder = store.begin(version)
            self._saved = asyncio.get_running_loop().create_future()
            self._p.trainer.send(Save(folder=str(folder / "trainer")))
            saved = await self._saved
            error = saved.error
            if not error:
                store.commit(folder, self.state())
            else:
                store.discard(folder)
        except OSError as problem:
            error = str(problem)
        self._p.recorder.checkpointed(version, error)

    def state(self) -> ControllerState:
        """What a resume needs; call at a step boundary."""
        return ControllerState(
            version=self.ledger.trainer_version,
            lineage=self._p.attempts.lineage,
            next_position=self._next_position,
            next_admission=self._next_admission,
            num_admitted_refills=self._refills_in_a_row,
            entries=(*self.ledger.entries(), *self._reissue),
        )


def _with_group(entry: Outstanding, group: Group) -> Outstanding:
    return replace(entry, group=group)


async def _first(main: asyncio.Task[None], background: list[asyncio.Task[None]]) -> None:
    """Wait for ``main``; a background task that ends first has failed, and its error is the run's."""
    done, _ = await asyncio.wait([main, *background], return_when=asyncio.FIRST_COMPLETED)
    if main in done:
        main.result()
        return
    for task in done:
        task.result()
        raise HeadraceError(f"{task.get_name()} ended early")
