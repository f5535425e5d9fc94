"""Asyncio tasks that somebody has to look after: their first error, their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from headrace.errors import HeadraceError
from headrace.pipeline.signal import Changed

Task = asyncio.Task[None]


class FirstError:
    """The first error of tasks that nobody waits for; it is the run's, and raised where batches are awaited."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._error: BaseException | None = None

    def note(self, task: Task) -> None:
        """To be called with a task that has ended."""
        if not task.cancelled() and task.exception() is not None:
            self._error = self._error or task.exception()
            self._changed.notify()

    def check(self) -> None:
        """Raise it, if there is one."""
        if self._error is not None:
            raise self._error


async def cancel(tasks: Iterable[Task]) -> None:
    """Cancel tasks and wait until they have ended, whatever they end with."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def first_of(main: Task, background: Sequence[Task]) -> None:
    """Wait for ``main``; a background task that ends before it has failed, and its error is raised."""
    done, _ = await asyncio.wait([main, *background], return_when=asyncio.FIRST_COMPLETED)
    if main in done:
        main.result()
    for task in background:
        if task in done:
            task.result()
            raise HeadraceError(f"{task.get_name()} ended early")
