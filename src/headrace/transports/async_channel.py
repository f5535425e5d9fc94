"""A channel's end for an event loop. The other end may be one too, or a ``Channel`` in a thread."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from headrace.errors import ChannelClosed, WaitTimeout
from headrace.transports import frames

if TYPE_CHECKING:
    from headrace.transports.channel import Channel

_UNREAD_HIGH = 4096  # messages; a channel nobody reads stops taking bytes off the socket
_UNSENT_HIGH = 8 << 20  # bytes; above, ``drain`` waits


class AsyncChannel(asyncio.BufferedProtocol):
    """A channel for one event loop: ``send`` never blocks (it buffers), ``recv`` is awaited.

    Arrays of a message that waits in the buffer must not be changed before ``drain`` returns.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._reader = frames.FrameReader()
        self._messages: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None
        self._error: BaseException | None = None
        self._paused = False

    @classmethod
    async def open(cls, channel: Channel) -> AsyncChannel:
        """Take over a channel's socket for the running loop. The ``Channel`` is closed afterwards."""
        loop = asyncio.get_running_loop()
        peer, sock = channel.peer, channel.detach()
        _, protocol = await loop.create_connection(lambda: cls(peer), sock=sock)
        return protocol

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def num_unread(self) -> int:
        """Messages that have arrived and were not taken yet."""
        return len(self._messages)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, message: Any) -> None:
        """Queue a message for sending. Raises ``ChannelClosed`` when the peer is gone."""
        if self.closed or self._transport is None:
            raise self._closed_error()
        for piece in frames.encode(message):
            self._transport.write(piece)

    async def drain(self, timeout_s: float | None = None) -> None:
        """Wait until the buffer is small again. Raises ``WaitTimeout``, or ``ChannelClosed``."""
        await self._wait(self._writable, timeout_s, f"{self.peer} to read what was sent")
        if self.closed:
            raise self._closed_error()

    async def recv(self, timeout_s: float | None = None) -> Any:
        """The next message. Raises ``WaitTimeout`` after ``timeout_s``, ``ChannelClosed`` when the peer is gone."""
        while not self._messages:
            if self.closed:
                raise self._closed_error()
            self._arrived.clear()
            await self._wait(self._arrived, timeout_s, f"a message from {self.peer}")
        message = self._messages.popleft()
        if self._paused and len(self._messages) < _UNREAD_HIGH // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return message

    async def _wait(self, event: asyncio.Event, timeout_s: float | None, what: str) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            raise WaitTimeout(f"waited {timeout_s:g} s for {what}") from None

    def close(self) -> None:
        """Close once everything queued is sent. May be called again."""
        if self._transport is not None:
            self._transport.close()

    def _closed_error(self) -> ChannelClosed:
        error = ChannelClosed(f"the channel to {self.peer} is closed: its process ended, or closed it")
        error.__cause__ = self._error
        return error

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=_UNSENT_HIGH)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.space()

    def buffer_updated(self, nbytes: int) -> None:
        if self._reader.advance(nbytes):
            self._messages.append(self._reader.take())
            self._arrived.set()
            if len(self._messages) >= _UNREAD_HIGH and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._error = exc
        self._transport = None
        self._arrived.set()
        self._writable.set()
