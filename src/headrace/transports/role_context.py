"""What a role has of the world outside its process: channels to its peers, shared weights, the supervisor."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, WaitTimeout
from headrace.records import WeightUpdate
from headrace.transports import control
from headrace.transports.channel import Channel, from_fd
from headrace.transports.shared_weights import (
    MANIFEST_BYTES,
    SharedWeightReader,
    SharedWeights,
    SharedWeightWriter,
    segment_bytes,
)

WAIT_S = 120.0


class RoleContext:
    """Made by the role host and handed to the role's factory. Every method may be called from any thread.

    ``name`` is unique in the run ("generator-0"), ``role`` its kind ("generator"), ``threads`` the compute threads the
    role may use. ``stop`` is set when the supervisor wants the role to end; ``stop_reason`` then says why.
    """

    def __init__(
        self, channel: Channel, *, name: str, role: str, run_id: str, run_folder: str | Path, threads: int = 1
    ) -> None:
        self.name = name
        self.role = role
        self.run_id = run_id
        self.run_folder = Path(run_folder)
        self.threads = threads
        self.stop = threading.Event()
        self.stop_reason: control.StopReason | None = None
        self._control = channel
        self._changed = threading.Condition()
        self._peers: dict[str, Channel] = {}
        self._on_peer: list[Callable[[str, Channel], None]] = []
        self._on_stop: list[Callable[[control.StopReason], None]] = []
        self._requests = itertools.count()
        self._answers: dict[int, queue.SimpleQueue[tuple[control.Memory, int | None]]] = {}

    # Peers

    def peer(self, name: str, timeout_s: float = WAIT_S) -> Channel:
        """The channel to another role. Raises ``WaitTimeout`` when the supervisor has not handed one over by then."""
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._peers, timeout_s):
                raise WaitTimeout(f"{self.name} waited {timeout_s:g} s for a channel to {name}")
            return self._peers[name]

    def on_peer(self, callback: Callable[[str, Channel], None]) -> None:
        """Call ``callback(name, channel)`` for every channel that arrives later, in the control thread.

        A role that comes back after its process died arrives under its old name.
        """
        with self._changed:
            self._on_peer.append(callback)

    # The supervisor

    @property
    def stop_requested(self) -> bool:
        return self.stop.is_set()

    def on_stop(self, callback: Callable[[control.StopReason], None]) -> None:
        """Call ``callback(reason)`` once, in the control thread, when the role shall end; now if it shall already."""
        with self._changed:
            self._on_stop.append(callback)
            reason = self.stop_reason
        if reason is not None:
            callback(reason)

    def report(self, event: Mapping[str, Any]) -> None:
        """Tell whoever watches the run about progress. Small, picklable, and no more than some ten a second."""
        self._control.send(control.Report(event=dict(event)))

    def done(self, result: Any = None) -> None:
        """Say that the role's work is done, before it tells others to end. Returning from ``run`` says it as well."""
        self._control.send(control.Done(result=result))

    # Shared memory

    def create_shared(self, nbytes: int, name: str = "weights", timeout_s: float = WAIT_S) -> int:
        """A descriptor of shared memory, which the supervisor creates; owned by the caller.

        Memory of that name and size that exists already is handed out again, contents and all, so that a role that
        was restarted goes on in it. Raises ``HeadraceError`` when there is not enough of it.
        """
        return self._ask(control.CreateMemory(request=next(self._requests), name=name, nbytes=nbytes), timeout_s)

    def open_shared(self, name: str = "weights", timeout_s: float = WAIT_S) -> int:
        """A descriptor of the memory another role creates under that name; waits for it up to ``timeout_s``."""
        return self._ask(control.OpenMemory(request=next(self._requests), name=name), timeout_s)

    def weight_writer(self, first: WeightUpdate, name: str = "weights") -> SharedWeightWriter:
        """The publishing end of a weight segment with room for updates as large as ``first`` (not published yet)."""
        specs = sum(len(spec.name) + 128 for spec in first.specs)
        probe = sum(a.nbytes + 256 for a in (*first.probe.token_ids, *first.probe.logprob)) if first.probe else 0
        manifest_nbytes = MANIFEST_BYTES + 2 * (specs + probe)
        segment = SharedWeights(self.create_shared(segment_bytes(first.buffer.nbytes, manifest_nbytes), name))
        segment.format(first.buffer.nbytes, manifest_nbytes)
        return segment.writer()

    def weight_reader(self, name: str = "weights", timeout_s: float = WAIT_S) -> SharedWeightReader:
        """The reading end of the segment some other role creates; waits for that up to ``timeout_s``."""
        segment = SharedWeights(self.open_shared(name, timeout_s))
        return segment.reader()

    def _ask(self, request: control.CreateMemory | control.OpenMemory, timeout_s: float) -> int:
        answers: queue.SimpleQueue[tuple[control.Memory, int | None]] = queue.SimpleQueue()
        self._answers[request.request] = answers
        self._control.send(request)
        try:
            answer, fd = answers.get(timeout=timeout_s)
        except queue.Empty:
            raise WaitTimeout(f"{self.name} waited {timeout_s:g} s for the shared memory {request.name!r}") from None
        finally:
            del self._answers[request.request]
        if fd is None:
            raise HeadraceError(answer.error or f"no shared memory {request.name!r}")
        return fd

    # The role host's side

    def serve(self) -> None:
        """Take what the supervisor sends until its end; raises ``ChannelClosed`` then. The control thread runs this."""
        while True:
            message, fd = self._control.recv_fd()
            if isinstance(message, control.PeerChannel) and fd is not None:
                self._take_peer(message.peer, fd)
            elif isinstance(message, control.Memory):
                self._take_answer(message, fd)
            elif isinstance(message, control.StopRole):
                self._take_stop(message.reason)

    def _take_peer(self, name: str, fd: int) -> None:
        channel = from_fd(fd, peer=name)
        with self._changed:
            self._peers[name] = channel
            callbacks = list(self._on_peer)
            self._changed.notify_all()
        for callback in callbacks:
            _guarded(callback, name, channel)

    def _take_answer(self, message: control.Memory, fd: int | None) -> None:
        answers = self._answers.get(message.request)
        if answers is not None:
            answers.put((message, fd))
        elif fd is not None:
            os.close(fd)  # it was waited for too long

    def _take_stop(self, reason: control.StopReason) -> None:
        with self._changed:
            if self.stop_reason is not None:
                return
            self.stop_reason = reason
            callbacks = list(self._on_stop)
        self.stop.set()
        for callback in callbacks:
            _guarded(callback, reason)


def _guarded(callback: Callable[..., None], *arguments: Any) -> None:
    # The control thread goes on: a callback into an event loop that has just been closed must not end the role.
    try:
        callback(*arguments)
    except Exception:
        traceback.print_exc()
