"""Message links in memory, ordered, with a delay a message; one pair joins the controller and a scripted role."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from headrace.errors import ChannelClosed
from headrace.pipeline.sim.chance import Chance


class MemoryLink:
    """One end. What is sent arrives at the other end in order, each message delayed by chance."""

    def __init__(self, name: str, chance: Chance, delay_s: float) -> None:
        self._name, self._chance, self._delay_s = name, chance, delay_s
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._underway: deque[Any] = deque()
        self._sent, self._last_arrival = 0, 0.0
        self._peer: MemoryLink | None = None

    def send(self, message: Any) -> None:
        loop = asyncio.get_running_loop()
        arrival = loop.time() + self._chance.delay(self._delay_s, "link", self._name, self._sent)
        self._sent += 1
        self._last_arrival = max(self._last_arrival, arrival)  # nothing overtakes
        self._underway.append(message)
        loop.call_at(self._last_arrival, self._arrive)

    def _arrive(self) -> None:
        # The oldest one under way, whichever timer this is: timers of one moment may fire in any order.
        assert self._peer is not None
        self._peer._inbox.put_nowait(self._underway.popleft())

    async def recv(self) -> Any:
        message = await self._inbox.get()
        if isinstance(message, ChannelClosed):
            raise message
        return message

    def close(self) -> None:
        """The process at this end is gone: the other end finds its channel closed."""
        self.send(ChannelClosed(f"the channel to '{self._name}' closed: its process is gone"))


def link_pair(name: str, chance: Chance, delay_s: float) -> tuple[MemoryLink, MemoryLink]:
    """(the controller's end, the role's end); ``name`` is the role's."""
    ours, theirs = MemoryLink(f"to {name}", chance, delay_s), MemoryLink(name, chance, delay_s)
    ours._peer, theirs._peer = theirs, ours
    return ours, theirs
