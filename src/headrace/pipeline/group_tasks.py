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

MAX_REFILLS_PER_GROUP, MIN_MAX_REFILLS = 20, 200
"""zero_variance 'refill': groups thrown away in a row, per group of a step and at least, before the run gives up. When
one group in ten has a signal, 200 in a row without one come with probability .9^200 = 7e-10."""


class GroupTasks:
    """``refills_in_a_row`` are groups thrown away for zero variance since the last one that was kept."""

    def __init__(
        self, parts: Parts, ledger: Ledger, progress: Progress, errors: FirstError, refills_in_a_row: int
    ) -> None:
        self._p, self._ledger, self._progress, self._errors = parts, ledger, progress, errors
        algorithm = parts.recipe.algorithm
        self._rule, self._tolerance = RULES[algorithm.zero_variance], algorithm.zero_variance_tolerance
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

    def give_up(self, entry: Outstanding) -> None:
        """A group was dropped: it is under way no more, and the pass-rate memory does not wait for it."""
        if self._p.curated is not None and not entry.finished:
            self._p.curated.gave_up(entry.admission)
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
        """Remember a judged group's verdicts, then apply the zero-variance rule and put it where it belongs."""
        if self._ledger.get(entry.admission) is None:
            return  # dropped while its last verdict was on its way
        if self._p.curated is not None:
            self._p.curated.finished(group)
        kept = self._rule(group, self._tolerance)
        if kept is not None:
            self.refills_in_a_row = 0
            self._ledger.finish(entry.admission, kept)
            return
        self._ledger.remove(entry.admission)
        self._p.recorder.dropped((replace(entry, group=group),), step=self._ledger.next_step, reason="zero variance")
        self._count_refill()

    def _count_refill(self) -> None:
        self.refills_in_a_row += 1
        if self.refills_in_a_row > most_refills(self._p.recipe.batch.groups_per_step):
            raise ConfigError(
                f"algorithm.zero_variance: refill threw away {self.refills_in_a_row} groups in a row: every prompt is "
                "solved always or never. Use harder or easier prompts, a larger batch.group_size, or 'shrink'."
            )


def most_refills(groups_per_step: int) -> int:
    """Groups that rule 'refill' may throw away in a row; one more ends the run."""
    return max(MAX_REFILLS_PER_GROUP * groups_per_step, MIN_MAX_REFILLS)
