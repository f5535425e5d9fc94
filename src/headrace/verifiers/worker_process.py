"""The pool's end of one verifier process: start it, hand it batches, see what it is at, end it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from headrace.records import Verdict
from headrace.verifiers import process_tree
from headrace.verifiers.scratch import Scratch
from headrace.verifiers.spec import VerifierSpec
from headrace.verifiers.wire import HEADER, IDLE, ProgressPage, unpack_verdicts

START_LIMIT_S = 60.0
MAX_FRAME_BYTES = 64 << 20
"""Nothing a verifier has to say is as long: a longer frame comes from a process that lost its senses."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


class WorkerGone(Exception):  # noqa: N818
    """The process ended, or never became ready; the message says why, as far as that is known."""


class WorkerProcess:
    """One running verifier process, with a session and a temporary folder of its own that go when it goes.

    Use ``await WorkerProcess.start(spec)``.
    """

    def __init__(self, home: _Home, progress: ProgressPage, streams: tuple[asyncio.StreamReader, Any]) -> None:
        self._home, self.process, self._progress = home, home.process, progress
        self._reader, self._writer = streams
        self._sent_s = 0.0
        self.killed_for: Literal["", "time", "memory"] = ""  # set by whoever ends the process for taking too much

    @classmethod
    async def start(cls, spec: VerifierSpec, log_path: str | None = None) -> WorkerProcess:
        """Start a process and build its verifier. Raises ``WorkerGone`` with the reason when that fails."""
        ours, theirs = socket.socketpair()
        progress_fd = os.memfd_create("headrace-verifier", os.MFD_CLOEXEC)
        try:
            home = _spawn(theirs.fileno(), progress_fd, log_path)
            progress = ProgressPage(progress_fd)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(progress_fd)
        ours.setblocking(False)
        worker = cls(home, progress, await asyncio.open_connection(sock=ours))
        try:
            worker._send(pickle.dumps(spec))
            hello = await asyncio.wait_for(worker._receive(), START_LIMIT_S)
        except TimeoutError:
            worker.kill()
            raise WorkerGone(f"it was not ready after {START_LIMIT_S:.0f} s") from None
        except BaseException:
            worker.kill()
            raise
        if "broken" in hello:
            worker.kill()
            raise WorkerGone(hello["broken"])
        progress.write(IDLE, 0.0)
        return worker

    def send_batch(self, batch: Sequence[bytes]) -> None:
        """Hand over pickled (completion, row) pairs; items are numbered by their place."""
        self._progress.write(IDLE, 0.0)
        self._sent_s = time.monotonic()
        self._send(pickle.dumps(list(batch), protocol=pickle.HIGHEST_PROTOCOL))

    async def verdicts(self) -> list[tuple[int, Verdict]]:
        """The next (item, verdict) pairs. Raises ``WorkerGone`` when the process ended."""
        message = await self._receive()
        try:
            return unpack_verdicts(message["verdicts"])
        except (KeyError, TypeError, ValueError):
            raise WorkerGone("it sent nonsense") from None

    @property
    def current(self) -> int:
        """The item the worker is at, or ``IDLE``."""
        return self._progress.read()[0]

    def busy_s(self) -> float:
        """Seconds since the current item was started (or, before that, since the batch was sent)."""
        item, since = self._progress.read()
        return time.monotonic() - (since if item != IDLE else self._sent_s)

    def hang_up_if_ended(self) -> None:
        """Close the connection of a process that is no more: one that it started may still hold the other end."""
        if self.process.poll() is not None:
            self._writer.transport.abort()

    @property
    def resident_bytes(self) -> int:
        """Memory the process has in RAM."""
        return process_tree.resident_bytes(self.process.pid)

    def signal_kill(self) -> None:
        """End the process and all it started without waiting for them; ``verdicts`` then raises."""
        if self.process.poll() is None:
            self._home.kill()

    def kill(self) -> int:
        """End the process and all it started, wait for it, remove its folder; returns the exit code (negative: the
        signal)."""
        self._writer.transport.abort()
        code = self._home.end()
        self._progress.close()
        return code

    def _send(self, payload: bytes) -> None:
        self._writer.write(HEADER.pack(len(payload)) + payload)

    async def _receive(self) -> dict[str, Any]:
        try:
            header = await self._reader.readexactly(HEADER.size)
            size = HEADER.unpack(header)[0]
            if size > MAX_FRAME_BYTES:
                raise WorkerGone("it sent nonsense")
            message = json.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise WorkerGone("its process ended") from None
        except ValueError:
            raise WorkerGone("it sent nonsense") from None
        if not isinstance(message, dict):
            raise WorkerGone("it sent nonsense")
        return message


class _Home:
    """A process with what has to go with it."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, scratch: Scratch) -> None:
        self.process, self._mark, self._scratch = process, mark, scratch

    def kill(self) -> None:
        """Everything at once, while the process that leads to the others is still there."""
        process_tree.kill(process_tree.members(self.process.pid, self._mark))

    def end(self) -> int:
        process_tree.end(self.process.pid, self._mark)
        self.process.kill()
        code = self.process.wait()
        self._scratch.remove()
        return code


def _spawn(sock_fd: int, progress_fd: int, log_path: str | None) -> _Home:
    package_parent = str(Path(__file__).resolve().parents[2])
    paths = [package_parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    mark, scratch = uuid.uuid4().hex, Scratch()
    own = {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": scratch.path, process_tree.MARK: mark}
    # -P: files beside the user's recipe must not stand in for the standard library.
    command = [
        sys.executable,
        "-P",
        "-m",
        "headrace.verifiers.worker",
        str(sock_fd),
        str(progress_fd),
        str(os.getpid()),
    ]
    log = open(log_path, "ab") if log_path else None  # noqa: SIM115 - closed below, the child has its own
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log or 2,  # what a user's function prints must not end in our own output
            stderr=log or 2,
            env={**os.environ, **_ONE_THREAD, **own},
            pass_fds=(sock_fd, progress_fd),
            start_new_session=True,
        )
        return _Home(process, mark, scratch)
    except BaseException:
        scratch.remove()
        raise
    finally:
        if log:
            log.close()
