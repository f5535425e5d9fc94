"""The shared memory of a run: the supervisor alone creates it, and hands out descriptors on request."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.transports.channel import Channel
from headrace.transports.control import CreateMemory, Memory, OpenMemory
from headrace.transports.memory import anonymous_memory


@dataclass(frozen=True, slots=True)
class _Block:
    fd: int
    nbytes: int


class SharedMemory:
    """Named blocks of anonymous memory, and the requests that wait for one."""

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}
        self._waiting: list[tuple[Channel, OpenMemory]] = []

    def create(self, channel: Channel, request: CreateMemory) -> None:
        """Answer with a new block, or with the one of that name and size; then answer those who waited for it."""
        try:
            block = self._block(request)
        except HeadraceError as error:
            channel.send(Memory(request=request.request, error=str(error)))
            return
        channel.send_fd(Memory(request=request.request), block.fd)
        waiting = [(c, r) for c, r in self._waiting if r.name == request.name]
        self._waiting = [(c, r) for c, r in self._waiting if r.name != request.name]
        for other, opened in waiting:
            with contextlib.suppress(HeadraceError):  # it ended while it waited
                other.send_fd(Memory(request=opened.request), block.fd)

    def open(self, channel: Channel, request: OpenMemory) -> None:
        """Answer with the block of that name, now or when it exists."""
        block = self._blocks.get(request.name)
        if block is None:
            self._waiting.append((channel, request))
        else:
            channel.send_fd(Memory(request=request.request), block.fd)

    def _block(self, request: CreateMemory) -> _Block:
        block = self._blocks.get(request.name)
        if block is None:
            fd = anonymous_memory(request.nbytes, label=f"headrace-{request.name}")
            block = self._blocks[request.name] = _Block(fd, request.nbytes)
        elif block.nbytes != request.nbytes:
            raise HeadraceError(
                f"the shared memory {request.name!r} has {block.nbytes} bytes; {request.nbytes} were asked for"
            )
        return block

    def close(self) -> None:
        """Give up every block; the memory is freed when the roles have ended."""
        for block in self._blocks.values():
            os.close(block.fd)
        self._blocks = {}
        self._waiting = []
