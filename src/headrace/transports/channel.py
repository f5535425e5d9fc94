"""Message channels over connected AF_UNIX stream sockets: no names, no ports, nothing to leak.

``Channel`` is for threads that may block, ``AsyncChannel`` for an event loop. Either end may be either kind.

    >>> a, b = pair("left", "right")
    >>> a.send({"step": 3})
    >>> b.recv(timeout_s=1.0)
    {'step': 3}
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.errors import ChannelClosed, WaitTimeout
from headrace.transports import frames
from headrace.transports.async_channel import AsyncChannel

__all__ = ["AsyncChannel", "Channel", "from_fd", "pair"]

SEND_TIMEOUT_S = 300.0  # a trainer that is in the middle of a step may take minutes to read
_SOCKET_BUFFER = 1 << 20
_MAX_FDS = 4
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Channel:
    """One end of a duplex, ordered message channel. ``peer`` is the name of the other end, for error messages.

    Any thread may send; one thread at a time may receive. A message is pickled, so only send to processes of the run.
    """

    def __init__(self, sock: socket.socket, *, peer: str = "peer", send_timeout_s: float = SEND_TIMEOUT_S) -> None:
        self.peer = peer
        self.send_timeout_s = send_timeout_s
        self._sock = sock
        self._reader = frames.FrameReader()
        self._fds: list[int] = []
        self._send_lock = threading.Lock()
        self._pollers = {events: select.poll() for events in (select.POLLIN, select.POLLOUT)}
        for events, poller in self._pollers.items():
            poller.register(sock, events)
        sock.setblocking(False)
        sock.set_inheritable(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER)

    def __repr__(self) -> str:
        return f"Channel(to {self.peer}, {'closed' if self.closed else f'fd {self.fileno()}'})"

    def fileno(self) -> int:
        """The socket's descriptor, -1 when closed; usable with ``select``."""
        return self._sock.fileno()

    @property
    def closed(self) -> bool:
        return self._sock.fileno() < 0

    def send(self, message: Any) -> None:
        """Send a message. Raises ``ChannelClosed`` when the peer is gone, ``WaitTimeout`` when it does not read.

        After a time-out the channel is closed, because half a message may have been sent.
        """
        self._send(frames.encode(message))

    def send_fd(self, message: Any, fd: int) -> None:
        """Send a message together with an open file descriptor. The sender keeps its own and may close it."""
        self._send(frames.encode(message), fd)

    def _send(self, pieces: list[memoryview], fd: int | None = None) -> None:
        deadline = time.monotonic() + self.send_timeout_s
        with self._send_lock:
            if fd is not None:
                sent = self._retry(partial(socket.send_fds, self._sock, [pieces[0]], [fd]), deadline)
                pieces = [pieces[0][sent:], *pieces[1:]]
            for piece in pieces:
                rest = piece
                while rest.nbytes:
                    rest = rest[self._retry(partial(self._sock.send, rest), deadline) :]

    def _retry(self, send: Callable[[], int], deadline: float) -> int:
        while True:
            try:
                return send()
            except BlockingIOError:
                if not self._wait(select.POLLOUT, deadline - time.monotonic()):
                    self.close()
                    raise WaitTimeout(
                        f"waited {self.send_timeout_s:g} s for {self.peer} to read a message; it does not read"
                    ) from None
            except OSError as error:
                raise self._closed_error() from error

    def recv(self, timeout_s: float | None = None) -> Any:
        """The next message. Raises ``WaitTimeout`` after ``timeout_s`` (None: wait as long as the peer lives).

        A time-out loses nothing: what has arrived of a message is kept for the next call.
        """
        message, fd = self.recv_fd(timeout_s)
        if fd is not None:
            os.close(fd)
        return message

    def recv_fd(self, timeout_s: float | None = None) -> tuple[Any, int | None]:
        """The next message and the file descriptor that came with it (owned by the caller), or None."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._receive_some():
            left = None if deadline is None else deadline - time.monotonic()
            if not self._wait(select.POLLIN, left):
                raise WaitTimeout(f"waited {timeout_s:g} s for a message from {self.peer}")
        fds, self._fds = self._fds, []
        for extra in fds[1:]:
            os.close(extra)
        return self._reader.take(), fds[0] if fds else None

    def _receive_some(self) -> bool:
        """Read what is there; True when a message is complete, False when more has to arrive."""
        while True:
            try:
                num_bytes = self._read()
            except BlockingIOError:
                return False
            except OSError as error:
                raise self._closed_error() from error
            if num_bytes == 0:
                raise self._closed_error()
            if self._reader.advance(num_bytes):
                return True

    def _read(self) -> int:
        if not self._reader.in_head:
            return self._sock.recv_into(self._reader.space())
        # Descriptors travel with the first bytes of a frame.
        space = self._reader.space()
        data, fds, _, _ = socket.recv_fds(self._sock, space.nbytes, _MAX_FDS, _CLOEXEC)
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds += fds
        space[: len(data)] = data
        return len(data)

    def poll(self, timeout_s: float = 0.0) -> bool:
        """True when something has arrived (a message, part of one, or the end of the channel)."""
        return self._wait(select.POLLIN, timeout_s)

    def _wait(self, events: int, timeout_s: float | None) -> bool:
        if self.closed:
            raise self._closed_error()
        poller = self._pollers[events]
        return bool(poller.poll(None if timeout_s is None else max(timeout_s, 0.0) * 1000.0))

    def _closed_error(self) -> ChannelClosed:
        return ChannelClosed(f"the channel to {self.peer} is closed: its process ended, or closed it")

    def detach(self) -> socket.socket:
        """Give the socket away (to an ``AsyncChannel``); this object is closed afterwards."""
        if not self._reader.at_border:
            raise ChannelClosed(f"the channel to {self.peer} cannot change hands in the middle of a message")
        sock = socket.socket(fileno=self._sock.detach())
        sock.setblocking(False)
        return sock

    def close(self) -> None:
        """Close this end; the peer reads what was sent and then gets ``ChannelClosed``. May be called again."""
        self._sock.close()
        for fd in self._fds:
            os.close(fd)
        self._fds = []


def pair(first: str = "peer", second: str = "peer") -> tuple[Channel, Channel]:
    """Two connected ends: the end to be used by ``first`` (its peer is ``second``), and the other way round."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(a, peer=second), Channel(b, peer=first)


def from_fd(fd: int, *, peer: str = "peer") -> Channel:
    """The channel of a socket descriptor that was inherited or received; takes the descriptor over."""
    return Channel(socket.socket(fileno=fd), peer=peer)
