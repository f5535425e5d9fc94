"""The controller, two coroutines: ``_produce`` admits prompts while the gate is open, ``_consume`` fills steps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from headrace.config.sections import Recipe
from headrace.curation.zero_variance import RULES
from headrace.errors import ConfigError, HeadraceError, WaitTimeout
from headrace.pipeline.assembler import Assembler, Attempts, attempt_name, group_name
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.batcher import Cut, cut
from headrace.pipeline.checkpoint import TRAINER_PART, CheckpointStore, ControllerState
from headrace.pipeline.evaluation import Evaluation, Evaluator
from headrace.pipeline.gate import AdmissionGate, Gate
from headrace.pipeline.generator_pool import GeneratorPool, GeneratorState, Link
from headrace.pipeline.ledger import LagSchedule, Ledger, Outstanding
from headrace.pipeline.messages import Save, Saved, Stepped, Stop, TrainerReady, TrainStep
from headrace.pipeline.signal import Changed
from headrace.protocols import PromptSource
from headrace.records import NO_VERSION, Group, PackedBatch

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
    gate: Gate | None = None  # None = the one that keeps the bound


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
        self._gate = parts.gate or AdmissionGate(
            total_steps=self._total, max_ready_batches=recipe.async_.max_ready_batches
        )
        self._next_position = state.next_position if state else 0
        self._next_admission = state.next_admission if state else 0
        self._refills_in_a_row = state.refills_in_a_row if state else 0
        self._reissue = self._take_back(state.entries) if state else []
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._inflight = _Inflight()
        self._saved: asyncio.Future[Saved] | None = None  # set while the trainer writes its part
        self._stop = False
        self._ending = False
        self._committing = False
        self._doing = ""  # what besides training is waited for
        self._failure: BaseException | None = None
        self._last_change = parts.clock()
        self._admitted_any = False
        self._eval_task: asyncio.Task[None] | None = None
        self._eval_wanted = False
        self._eval_timer = _Timer(recipe.eval.every_steps, recipe.eval.every_minutes * 60, 0.0, version)
        self._save_timer = _Timer(recipe.checkpoint.every_steps, recipe.checkpoint.every_minutes * 60, 0.0, version)

    def _take_back(self, entries: Iterable[Outstanding]) -> list[Outstanding]:
        """Put a checkpoint's finished groups into the ledger; return those that must be sampled again.

        Those are the unfinished ones, and finished ones that no longer fit (the bound was lowered for the resume).
        """
        again = [e for e in entries if not e.finished]
        ready = [replace(e, step=None) for e in entries if e.finished]
        while late := self.ledger.overdue(ready, self.ledger.next_step):
            ready.remove(late[0])
            again.append(late[0])
        for entry in ready:
            self.ledger.admit(entry)
        return sorted((_unsampled(e) for e in again), key=lambda e: e.admission)

    # ---- the run -------------------------------------------------------------------------------------------------

    async def run(self) -> bool:
        """Start, evaluate, train, evaluate, checkpoint. Raises what went wrong in any part of the run."""
        await self._start()
        background = [
            *self._p.pool.readers(),
            asyncio.create_task(self._read_trainer(), name="read-trainer"),
            asyncio.create_task(self._watch(), name="watch"),
        ]
        main = asyncio.create_task(self._main(), name="main")
        try:
            await _first(main, background)
        finally:
            self._ending = True
            await _cancel([main, *background])
            await _cancel(self._side_tasks())
        return self.ledger.trainer_version >= self._total

    def request_stop(self) -> None:
        """End after the steps the trainer has; the checkpoint is written. Call from the event loop's thread.

        An evaluation that runs is given up.
        """
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
        self._p.pool.published(ready.version)

    async def _main(self) -> None:
        now = self._p.clock()
        self._eval_timer.last_time = self._save_timer.last_time = self._last_change = now
        if self.ledger.trainer_version == 0:
            await self._evaluate_now("evaluating before")
        self._p.recorder.phase("training")
        producer = asyncio.create_task(self._produce(), name="produce")
        producer.add_done_callback(self._note_failure)
        try:
            await self._consume()
        finally:
            await _cancel([producer])
        self._p.recorder.last_update(self._p.pool)
        await self._evaluate_now("evaluating after")
        self._ending = True
        await _cancel(self._side_tasks())
        await self._checkpoint()
        self._p.pool.stop()
        self._p.trainer.send(Stop())

    async def _evaluate_now(self, phase: str) -> None:
        """Finish the evaluation that runs, if any, then evaluate. Returns early when the run is to stop."""
        self._eval_wanted = False
        if self._stop:
            return
        self._p.recorder.phase(phase)
        self._doing = phase
        await self._unless_stopped(self._eval_task)
        if not self._stop:
            self._eval_task = asyncio.create_task(self._evaluate(), name="evaluate")
            await self._unless_stopped(self._eval_task)
        self._doing = ""

    async def _unless_stopped(self, task: asyncio.Task[None] | None) -> None:
        """Wait for a task and raise what it raises; on a stop, leave it."""
        if task is None:
            return
        task.add_done_callback(lambda _: self._p.changed.notify())
        while not task.done() and not self._stop:
            await self._p.changed.ticket().wait()
        if task.done():
            task.result()

    def _side_tasks(self) -> list[asyncio.Task[None]]:
        """Groups and evaluations under way."""
        return [*self._tasks.values(), *([self._eval_task] if self._eval_task is not None else [])]

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        """A task nobody waits for has ended; its error is the run's, raised where batches are awaited."""
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
            self._p.changed.notify()

    # ---- time-outs -----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """End the run when weights got lost or nothing moves any more, and name what is missing."""
        timeout_s = self._p.recipe.run.timeout_s
        while True:
            before = self._p.clock()
            await asyncio.sleep(TICK_S)
            now = self._p.clock()
            if now - before > TICK_S + timeout_s / 2:
                continue  # this process itself was held up: what the others sent meanwhile is read first
            self._p.pool.check_acknowledged(timeout_s)
            if now - max(self._last_change, self._p.pool.last_heard) > timeout_s and not self._committing:
                raise WaitTimeout(f"nothing moved for {timeout_s:g} s; waiting for {self._missing()}")

    def _missing(self) -> str:
        if self._saved is not None:
            return f"the trainer to write its part of the checkpoint at version {self.ledger.trainer_version}"
        if self._inflight.cuts:
            return f"the trainer to finish step {min(self._inflight.cuts)}"
        if self._doing:
            return f"completions or their verdicts ({self._doing}); generators owe {self._owed()}"
        unfinished = [e for e in self.ledger.waiting() if not e.finished]
        if unfinished:
            first = unfinished[0]
            return (
                f"{len(unfinished)} unfinished groups, the oldest being group {first.admission} on generator "
                f"'{first.generator}' (its completions or their verdicts); generators owe {self._owed()}"
            )
        return f"the admission gate to open ({self._shut()})"

    def _owed(self) -> str:
        counts = {s.name: len(s.owed) for s in self._p.pool.states.values()}
        return ", ".join(f"'{name}' {n} completions" for name, n in counts.items())

    def _shut(self) -> str:
        states = self._p.pool.states.values()
        whys = {s.name: self._gate.decide(self.ledger, s.acked_version).reason or "no free slot" for s in states}
        versions = {s.name: s.acked_version for s in states}
        return ", ".join(f"generator '{n}' at version {versions[n]}: {why}" for n, why in whys.items())

    # ---- producing -----------------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        while not self._stop:
            ticket = self._p.changed.ticket()
            while (state := self._admissible()) is not None:
                self._admit(state)
            await ticket.wait()

    def _admissible(self) -> GeneratorState | None:
        """The generator with most room on which the gate is open, or None."""
        # One group more than the slots hold waits inside the engine, so that a freed slot is filled at once.
        roomy = [s for s in self._p.pool.states.values() if s.num_policy < s.num_slots]
        open_ = [s for s in roomy if self._gate.decide(self.ledger, s.acked_version).open]
        return min(open_, key=lambda s: s.num_policy / s.num_slots) if open_ else None

    def _admit(self, state: GeneratorState) -> None:
        if not self._admitted_any:
            self._admitted_any = True
            self._p.recorder.first_admission(self._p.pool)
        admission, position = self._next()
        entry = Outstanding(
            admission=admission,
            group_id=group_name(self._p.attempts.purpose, admission),
            prompt=self._p.train_source.at(position),
            position=position,
            generator=state.name,
            admitted_version=state.acked_version,
        )
        self.ledger.admit(entry)
        self._p.pool.reserve(state, self._attempts_of(entry))
        task = asyncio.create_task(self._run_group(entry, state), name=entry.group_id)
        self._tasks[admission] = task
        task.add_done_callback(lambda t: self._group_ended(t, entry, state))

    def _next(self) -> tuple[int, int]:
        """Admission number and prompt position of the next group; groups that an earlier run left come first."""
        if self._reissue:
            old = self._reissue.pop(0)
            return old.admission, old.position
        self._next_admission += 1
        self._next_position += 1
        return self._next_admission - 1, self._next_position - 1

    def _attempts_of(self, entry: Outstanding) -> list[str]:
        return [attempt_name(entry.group_id, m) for m in range(self._p.recipe.batch.group_size)]

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
        if self.ledger.get(entry.admission) is None:
            return  # dropped while its last verdict was on its way
        kept = RULES[self._p.recipe.algorithm.zero_variance](group)
        if kept is not None:
            self._refills_in_a_row = 0
            self.ledger.finish(entry.admission, kept)
            return
        self.ledger.remove(entry.admission)
        self._refills_in_a_row += 1
        self._p.recorder.dropped((replace(entry, group=group),), step=self.ledger.next_step, reason="zero variance")
        if self._refills_in_a_row > MAX_REFILLS_PER_GROUP * self._p.recipe.batch.groups_per_step:
            raise ConfigError(
                f"algorithm.zero_variance: refill threw away {self._refills_in_a_row} groups in a row: every prompt is "
                "solved always or never. Use harder or easier prompts, a larger batch.group_size, or 'shrink'."
            )

    def _group_ended(self, task: asyncio.Task[None], entry: Outstanding, state: GeneratorState) -> None:
        self._tasks.pop(entry.admission, None)
        self._p.pool.release(state, self._attempts_of(entry))
        self._last_change = self._p.clock()
        self._note_failure(task)
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
        """Wait for a change, but look at the clock now and then: some things are due by time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ticket.wait(), TICK_S)

    async def _read_trainer(self) -> None:
        while True:
            message = await self._p.trainer.recv()
            match message:
                case Stepped():
                    self._on_stepped(message)
                case Saved() if self._saved is not None:
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
        self._note_failure(task)
        if self._eval_wanted and not self._ending and not task.cancelled():
            self._want_evaluation()

    async def _evaluate(self) -> None:
        if self._p.evaluator is None:
            return
        target = self.ledger.trainer_version
        while any(s.acked_version < target for s in self._p.pool.states.values()):
            await self._p.changed.ticket().wait()
        evaluation = await self._p.evaluator.run()
        self._p.recorder.evaluated(evaluation, self._p.pool)

    async def _checkpoint(self) -> None:
        """Write a checkpoint at a step boundary. A disk that is full costs the checkpoint, not the run."""
        store = self._p.checkpoints
        version = self.ledger.trainer_version
        self._save_timer.done(version, self._p.clock())
        if store is None:
            return
        try:
            error = await self._write(store, store.begin(version))
        except OSError as problem:
            error = str(problem)
        self._p.recorder.checkpointed(version, error)

    async def _write(self, store: CheckpointStore, folder: Path) -> str:
        """Fill and commit a checkpoint folder; returns why that failed ('' = it did not). Leaves nothing half done."""
        saved = await self._save_trainer(folder)
        error = saved.error
        if not error:
            try:
                # Hashing and syncing gigabytes takes seconds, in which generators must not be left without orders.
                self._committing = True
                await asyncio.to_thread(store.commit, folder, self.state())
            except OSError as problem:
                error = str(problem)
            finally:
                self._committing = False
                self._last_change = self._p.clock()
        if error:
            store.discard(folder)
        return error

    async def _save_trainer(self, folder: Path) -> Saved:
        self._saved = asyncio.get_running_loop().create_future()
        self._p.trainer.send(Save(folder=str(folder / TRAINER_PART)))
        try:
            return await self._saved
        finally:
            self._saved = None

    def state(self) -> ControllerState:
        """What a resume needs; call at a step boundary."""
        return ControllerState(
            version=self.ledger.trainer_version,
            lineage=self._p.attempts.lineage,
            next_position=self._next_position,
            next_admission=self._next_admission,
            refills_in_a_row=self._refills_in_a_row,
            entries=(*self.ledger.entries(), *self._reissue),
        )


def _unsampled(entry: Outstanding) -> Outstanding:
    return replace(entry, group=None, group_version=NO_VERSION, step=None)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended, whatever they end with."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _first(main: asyncio.Task[None], background: list[asyncio.Task[None]]) -> None:
    """Wait for ``main``; a background task that ends before it has failed, and its error is the run's."""
    done, _ = await asyncio.wait([main, *background], return_when=asyncio.FIRST_COMPLETED)
    if main in done:
        main.result()
    for task in background:
        if task in done:
            task.result()
            raise HeadraceError(f"{task.get_name()} ended early")
