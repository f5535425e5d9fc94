"""Ends a run in which nothing moves any more, and names what is missing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import NoReturn

from headrace.errors import WaitTimeout
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.signal import Changed

TICK_S = 0.5  # how often clocks and time-outs are looked at


class Progress:
    """When the run last got somewhere, apart from messages of generators (the pool knows when those came)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._paused = False
        self._last = clock()

    def note(self) -> None:
        self._last = self._clock()

    def idle_s(self, now: float) -> float:
        """Seconds without progress; 0 while it is paused."""
        return 0.0 if self._paused else now - self._last

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While something runs that may take long and cannot be watched: a disk."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self.note()


class Watchdog:
    """``missing`` says what is waited for; it is asked when nothing has moved for ``timeout_s``.

    Every ``TICK_S`` it wakes whoever waits for a change: some things are due by time.
    """

    def __init__(
        self,
        pool: GeneratorPool,
        progress: Progress,
        changed: Changed,
        missing: Callable[[], str],
        *,
        clock: Callable[[], float],
        timeout_s: float,
    ) -> None:
        self._pool, self._progress, self._changed, self._missing = pool, progress, changed, missing
        self._clock, self._timeout_s = clock, timeout_s

    async def watch(self) -> NoReturn:
        """Raises ``PublicationError`` when weights got lost, ``WaitTimeout`` when nothing moves any more."""
        while True:
            before = self._clock()
            await asyncio.sleep(TICK_S)
            self._changed.notify()
            now = self._clock()
            if now - before > TICK_S + self._timeout_s / 2:
                continue  # this process itself was held up: what the others sent meanwhile is read first
            self._pool.check_acknowledged(self._timeout_s)
            if min(self._progress.idle_s(now), now - self._pool.last_heard) > self._timeout_s:
                raise WaitTimeout(f"nothing moved for {self._timeout_s:g} s; waiting for {self._missing()}")
