"""When the weights are evaluated: before training, beside it by a cadence, and after it."""

from __future__ import annotations

import asyncio

from headrace.pipeline.cadence import Cadence
from headrace.pipeline.ledger import Ledger
from headrace.pipeline.parts import Parts
from headrace.pipeline.tasks import FirstError, Task


class EvalSchedule:
    """One evaluation runs at a time. ``doing`` names the one that training waits for, '' when it waits for none."""

    def __init__(self, parts: Parts, ledger: Ledger, cadence: Cadence, errors: FirstError) -> None:
        self._p, self._ledger, self._errors = parts, ledger, errors
        self.cadence = cadence
        self.doing = ""
        self._task: Task | None = None
        self._wanted = False  # one more, when the one that runs has ended
        self._stopped = self._closed = False

    def stop(self) -> None:
        """An evaluation that training waits for is given up, and none is begun."""
        self._stopped = True

    def close(self) -> list[Task]:
        """No evaluation follows the one that runs; returns its task, for the caller to end."""
        self._closed = True
        return [self._task] if self._task is not None else []

    def stepped(self, version: int) -> None:
        """Evaluate beside training if it is time to; while an evaluation runs, one more waits."""
        now = self._p.clock()
        if self.cadence.due(version, now):
            self.cadence.done(version, now)
            self._begin()

    async def now(self, phase: str) -> None:
        """Finish the evaluation that runs, if any, then evaluate. Returns early when the run is to stop."""
        self._wanted = False
        if self._stopped:
            return
        self._p.recorder.phase(phase)
        self.doing = phase
        await self._unless_stopped(self._task)
        if not self._stopped:
            self._task = asyncio.create_task(self._evaluate(), name="evaluate")
            await self._unless_stopped(self._task)
        self.doing = ""

    async def _unless_stopped(self, task: Task | None) -> None:
        """Wait for a task and raise what it raises; on a stop, leave it."""
        if task is None:
            return
        task.add_done_callback(lambda _: self._p.changed.notify())
        while not task.done() and not self._stopped:
            await self._p.changed.ticket().wait()
        if task.done():
            task.result()

    def _begin(self) -> None:
        if self._task is not None and not self._task.done():
            self._wanted = True
            return
        self._wanted = False
        self._task = asyncio.create_task(self._evaluate(), name="evaluate")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: Task) -> None:
        self._errors.note(task)
        if self._wanted and not self._closed and not task.cancelled():
            self._begin()

    async def _evaluate(self) -> None:
        if self._p.evaluator is None:
            return
        target = self._ledger.trainer_version
        while any(s.acked_version < target for s in self._p.pool.states.values()):
            await self._p.changed.ticket().wait()
        evaluation = await self._p.evaluator.run()
        self._p.recorder.evaluated(evaluation, self._p.pool)
