"""The controller, two coroutines: ``_produce`` admits prompts while the gate is open, ``_consume`` fills steps."""

from __future__ import annotations

import asyncio

from headrace.curation.replay import may_train_again
from headrace.errors import DataError, HeadraceError, WaitTimeout
from headrace.pipeline.admissions import Admissions
from headrace.pipeline.assembler import group_name
from headrace.pipeline.batcher import Cut, cut
from headrace.pipeline.cadence import Cadence
from headrace.pipeline.checkpoint import ControllerState
from headrace.pipeline.checkpoint_writer import CheckpointWriter
from headrace.pipeline.eval_schedule import EvalSchedule
from headrace.pipeline.gate import AdmissionGate
from headrace.pipeline.generator_pool import GeneratorState
from headrace.pipeline.group_tasks import GroupTasks
from headrace.pipeline.inflight import InflightSteps
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.pipeline.messages import Saved, Stepped, Stop, TrainerReady, TrainStep
from headrace.pipeline.parts import Parts
from headrace.pipeline.stalled import missing_groups, owed
from headrace.pipeline.tasks import FirstError, cancel, first_of
from headrace.pipeline.watchdog import Progress, Watchdog


class Controller:
    """Runs to the last step, or to a clean stop. ``run`` returns True when all steps were done."""

    def __init__(self, parts: Parts) -> None:
        self._p = parts
        recipe, state = parts.recipe, parts.resume
        self._total = recipe.run.steps
        version = state.version if state else 0
        self.ledger = Ledger(
            groups_per_step=recipe.batch.groups_per_step, max_lag=parts.max_lag, trainer_version=version
        )
        self._gate = parts.gate or AdmissionGate(
            total_steps=self._total, max_ready_batches=recipe.async_.max_ready_batches
        )
        self._admissions = Admissions(parts, self.ledger)
        self._errors = FirstError(parts.changed)
        self._progress = Progress(parts.clock)
        self._groups = GroupTasks(
            parts, self.ledger, self._progress, self._errors, state.refills_in_a_row if state else 0
        )
        self._inflight = InflightSteps()
        evals = Cadence(recipe.eval.every_steps, recipe.eval.every_minutes * 60, version)
        saves = Cadence(recipe.checkpoint.every_steps, recipe.checkpoint.every_minutes * 60, version)
        self._evals = EvalSchedule(parts, self.ledger, evals, self._errors)
        self._checkpoints = CheckpointWriter(parts, saves, self._progress, self.state)
        self._stop = False
        self._out_of_prompts: DataError | None = None
        self._admitted_any = False

    # ---- the run -------------------------------------------------------------------------------------------------

    async def run(self) -> bool:
        """Start, evaluate, train, evaluate, checkpoint. Raises what went wrong in any part of the run."""
        await self._start()
        watchdog = Watchdog(
            self._p.pool,
            self._progress,
            self._p.changed,
            self._missing,
            clock=self._p.clock,
            timeout_s=self._p.recipe.run.timeout_s,
        )
        background = [
            *self._p.pool.readers(),
            asyncio.create_task(self._read_trainer(), name="read-trainer"),
            asyncio.create_task(watchdog.watch(), name="watch"),
        ]
        main = asyncio.create_task(self._main(), name="main")
        try:
            await first_of(main, background)
        finally:
            self._evals.close()
            await cancel([main, *background])
            await cancel([*self._groups.all(), *self._evals.close()])
        return self.ledger.trainer_version >= self._total

    def request_stop(self) -> None:
        """End after the steps the trainer has; the checkpoint is written. Call from the event loop's thread.

        An evaluation that runs is given up.
        """
        self._stop = True
        self._evals.stop()
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
        self._progress.note()
        self._evals.cadence.last_time = self._checkpoints.cadence.last_time = self._p.clock()
        if self.ledger.trainer_version == 0:
            await self._evals.now("evaluating before")
        self._p.recorder.phase("training")
        producer = asyncio.create_task(self._produce(), name="produce")
        producer.add_done_callback(self._errors.note)
        try:
            await self._consume()
        finally:
            await cancel([producer])
        self._p.recorder.last_update(self._p.pool)
        await self._evals.now("evaluating after")
        await cancel([*self._evals.close(), *self._groups.all()])
        await self._checkpoints.write(self.ledger.trainer_version)
        self._p.pool.stop()
        self._p.trainer.send(Stop())
        if self._out_of_prompts is not None:
            raise self._out_of_prompts

    def _missing(self) -> str:
        """What is waited for, for the error of a run that does not move any more."""
        if self._checkpoints.waits_for_trainer:
            return f"the trainer to write its part of the checkpoint at version {self.ledger.trainer_version}"
        if self._inflight:
            return f"the trainer to finish step {self._inflight.oldest}"
        if self._evals.doing:
            return f"completions or their verdicts ({self._evals.doing}); generators owe {owed(self._p.pool)}"
        return missing_groups(self.ledger, self._p.pool, self._gate)

    # ---- producing -----------------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        while not self._stop:
            ticket = self._p.changed.ticket()
            try:
                while (state := self._admissible()) is not None:
                    self._admit(state)
            except DataError as error:  # what was learnt so far is kept: the run ends as if it had been stopped
                self._out_of_prompts = error
                self.request_stop()
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
        turn = self._admissions.take()
        entry = Outstanding(
            admission=turn.admission,
            group_id=group_name(self._p.attempts.purpose, turn.admission),
            prompt=turn.prompt,
            position=turn.position,
            generator=state.name,
            admitted_version=state.acked_version,
            temperature=self._p.temperature(self.ledger.target_step) if turn.temperature is None else turn.temperature,
        )
        self.ledger.admit(entry)
        self._groups.start(entry, state)

    # ---- consuming -----------------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        while self.ledger.trainer_version < self._total:
            ticket = self._p.changed.ticket()
            self._errors.check()
            idle = not self._inflight
            if self._stop and idle:
                return
            if idle and self._checkpoints.due(self.ledger.trainer_version):
                await self._checkpoints.write(self.ledger.trainer_version)
                continue
            if self._may_send() and (batch := cut(self.ledger, at_bound=self._p.recipe.async_.at_bound)) is not None:
                self._send(batch)
                continue
            await ticket.wait()

    def _may_send(self) -> bool:
        step = self.ledger.next_step
        boundary = bool(self._inflight) and self._checkpoints.due(step)
        return not self._stop and not self._inflight.full and step < self._total and not boundary

    def _send(self, batch: Cut) -> None:
        for entry in batch.dropped:
            self._groups.give_up(entry)
        if batch.dropped:
            self._p.recorder.dropped(batch.dropped, step=batch.step, reason="lag")
        groups, packed = self._p.builder.build(
            batch, lineage=self._p.attempts.lineage, max_lag=self._p.max_lag(batch.step)
        )
        self._inflight.add(groups, packed, batch.uses)
        self._p.trainer.send(TrainStep(batch=packed))
        self._p.changed.notify()

    async def _read_trainer(self) -> None:
        while True:
            message = await self._p.trainer.recv()
            match message:
                case Stepped():
                    self._on_stepped(message)
                case Saved() if self._checkpoints.waits_for_trainer:
                    self._checkpoints.trainer_saved(message)
                case _:
                    raise HeadraceError(f"the trainer sent an unexpected {type(message).__name__}")
            self._progress.note()
            self._p.changed.notify()

    def _on_stepped(self, message: Stepped) -> None:
        version = message.result.version
        curated = self._p.curated
        trained = self._inflight.answered(message, curated.metrics() if curated is not None else {})
        self._put_back(self.ledger.complete(message.result.step))
        self._p.pool.published(version)
        self._p.recorder.trained(trained, self._p.pool)
        if version < self._total:
            self._evals.stepped(version)

    def _put_back(self, trained: list[Outstanding]) -> None:
        """Groups that may train once more wait again, as many as the rest of the run has room for."""
        most = self._p.recipe.async_.max_uses
        again = [e for e in trained if e.group is not None and may_train_again(e.group, e.uses, most)]
        steps_left = self._total - self.ledger.trainer_version
        known = len(self.ledger) + len(self._admissions.reissue)
        self.ledger.put_back(again, max(steps_left * self.ledger.groups_per_step - known, 0))

    def state(self) -> ControllerState:
        """What a resume needs; call at a step boundary."""
        return ControllerState(
            version=self.ledger.trainer_version,
            lineage=self._p.attempts.lineage,
            next_position=self._admissions.next_position,
            next_admission=self._admissions.next_admission,
            refills_in_a_row=self._groups.refills_in_a_row,
            entries=(*self.ledger.entries(), *self._admissions.reissue),
            spent=self._p.recorder.spent(self._p.pool),
            curation=self._p.curated.to_dict() if self._p.curated is not None else None,
        )
