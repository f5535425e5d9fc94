"""A wake-up that many coroutines wait for: 'something changed, look again'."""

from __future__ import annotations

import asyncio


class Changed:
    """``notify`` wakes every coroutine in ``wait``. A notify between two waits of one coroutine is never lost when the
    coroutine re-checks its condition after taking ``ticket``."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    def ticket(self) -> asyncio.Event:
        """Take before checking a condition; wait on it afterwards."""
        return self._event
