"""Groups that are being sampled and judged, one task each, and where a finished one goes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headrace.curation.zero_variance import RULES
from headrace.errors import ConfigError
from headrace.pipeline.assembler import attempt_name
from headrace.pipeline.generator_pool import GeneratorState
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.pipeline.parts import Parts
from headrace.pipeline.tasks import FirstError, Task
from headrace.pipeline.watchdog import Progress
from headrace.records import Group

MAX_REFILLS_PER_GROUP = 20  # zero_variance 'refill': groups thrown away in a row, per group wanted, before giving up


class GroupTasks:
    """``refills_in_a_row`` are groups thrown away for zero variance since the last one that was kept."""

    def __init__(
        self, parts: Parts, ledger: Ledger, progress: Progress, errors: FirstError, refills_in_a_row: int
    ) -> None:
        self._p, self._ledger, self._progress, self._errors = parts, ledger, progress, errors
        self._rule = RULES[parts.recipe.algorithm.zero_variance]
        self.refills_in_a_row = refills_in_a_row
        self._tasks: dict[int, Task] = {}

    def all(self) -> list[Task]:
        return list(self._tasks.values())

    def start(self, entry: Outstanding, state: GeneratorState) -> None:
        """Sample a group that was admitted on a generator."""
        self._p.pool.reserve(state, self._attempts_of(entry))
        task = asyncio.create_task(self._run(entry, state), name=entry.group_id)
        self._tasks[entry.admission] = task
        task.add_done_callback(lambda t: self._ended(t, entry, state))

    def cancel(self, entry: Outstanding) -> None:
        """Give a group up, if it is still under way."""
        task = self._tasks.get(entry.admission)
        if task is not None:
            task.cancel()

    def _attempts_of(self, entry: Outstanding) -> list[str]:
        return [attempt_name(entry.group_id, m) for m in range(self._p.recipe.batch.group_size)]

    async def _run(self, entry: Outstanding, state: GeneratorState) -> None:
        group = await self._p.assembler.group(
            entry.prompt,
            state,
            replace(self._p.attempts, temperature=entry.temperature),
            admission=entry.admission,
            position=entry.position,
            size=self._p.recipe.batch.group_size,
        )
        self._file(entry, group)

    def _ended(self, task: Task, entry: Outstanding, state: GeneratorState) -> None:
        self._tasks.pop(entry.admission, None)
        self._p.pool.release(state, self._attempts_of(entry))
        self._progress.note()
        self._errors.note(task)
        self._p.changed.notify()

    def _file(self, entry: Outstanding, group: Group) -> None:
        """Apply the zero-variance rule to a finished group and put it where it belongs."""
        if self._ledger.get(entry.admission) is None:
            return  # dropped while its last verdict was on its way
        kept = self._rule(group)
        if kept is not None:
            self.refills_in_a_row = 0
            self._ledger.finish(entry.admission, kept)
            return
        self._ledger.remove(entry.admission)
        self._p.recorder.dropped((replace(entry, group=group),), step=self._ledger.next_step, reason="zero variance")
        self._count_refill()

    def _count_refill(self) -> None:
        self.refills_in_a_row += 1
        if self.refills_in_a_row > MAX_REFILLS_PER_GROUP * self._p.recipe.batch.groups_per_step:
            raise ConfigError(
                f"algorithm.zero_variance: refill threw away {self.refills_in_a_row} groups in a row: every prompt is "
                "solved always or never. Use harder or easier prompts, a larger batch.group_size, or 'shrink'."
            )
