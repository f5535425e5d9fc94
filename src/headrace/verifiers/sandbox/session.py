"""The verifier's end of a sandbox: start it, run tests of a program in it, end it without leaving anything."""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.verifiers.sandbox.inside import frames
from headrace.verifiers.sandbox.inside.keeper import wipe
from headrace.verifiers.sandbox.launch import ENVIRONMENT, MARKS, command

START_LIMIT_S = 20.0
GRACE_S = 2.0
"""The keeper inside ends a run at its limit; when it has not answered this much later, the whole sandbox is ended."""

MAX_REPLY_BYTES = 1 << 30
_MB = 1 << 20


class SandboxError(Exception):
    """The sandbox does not start, or a run could not be set up: not the program's doing."""


class SandboxEnded(Exception):  # noqa: N818
    """The sandbox ended or fell silent while a program ran in it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one test, except ``folder_bytes`` (the temporary folder as a whole; 'rlimits' bounds its files one by one)."""

    time_s: float = 4.0  # wall time
    memory_bytes: int = 512 * _MB  # address space
    output_bytes: int = _MB  # of standard output, standard error and the answer, each
    file_bytes: int = 16 * _MB  # of one file


@dataclass(frozen=True, slots=True)
class Reply:
    """One run. ``how`` is a constant of ``inside.frames``; ``code`` an exit code or signal number."""

    how: int
    code: int
    seconds: float
    result: bytes
    output: bytes
    errors: bytes  # the last 2000 bytes


Question = tuple[str, Sequence[Any] | None]


class Sandbox:
    """One waiting process inside, in which programs run one after the other. Use as a context manager."""

    def __init__(self, level: str, folder_bytes: int = 64 * _MB) -> None:
        self.level = level
        self.files_closed = True
        self._folder = tempfile.mkdtemp(prefix="headrace-code-") if level == "rlimits" else "/tmp/work"
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = False
        try:
            self._start(folder_bytes)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run_script(self, code: str, stdin: bytes, limits: Limits | None = None) -> Reply:
        """Run a program as a script. Raises as ``run`` does."""
        return self.run({"mode": "script", "code": code, "stdin": stdin}, limits or Limits())

    def ask(self, code: str, questions: Sequence[Question], limits: Limits | None = None) -> Reply:
        """Load a program as a module and ask for values: expressions in its terms, or callables with arguments."""
        plain = [(source, None if given is None else list(given)) for source, given in questions]
        return self.run({"mode": "answers", "code": code, "stdin": b"", "questions": plain}, limits or Limits())

    def run(self, request: dict[str, Any], limits: Limits) -> Reply:
        """One run, at most ``limits.time_s`` long.

        Raises ``SandboxError`` when it could not be set up, ``SandboxEnded`` when the sandbox is no more.
        """
        whole = {
            **request,
            "time_s": limits.time_s,
            "memory_bytes": limits.memory_bytes,
            "output_bytes": limits.output_bytes,
            "file_bytes": limits.file_bytes,
        }
        self._busy = True
        body = self._exchange(marshal.dumps(whole), limits.time_s + GRACE_S)
        how, code, seconds, *lengths = frames.REPLY.unpack_from(body)
        parts, place = [], frames.REPLY.size
        for length in lengths:
            parts.append(body[place : place + length])
            place += length
        reply = Reply(how, code, seconds, *parts)
        if reply.how == frames.BROKEN:
            raise SandboxError(f"a run could not be set up: {_text(reply.result)} {_text(reply.errors)} ({code})")
        return reply

    def end_program(self) -> None:
        """Everything of the program that ran is let go; the sandbox is ready for another one."""
        if self._busy:
            self._busy = False
            self._write(frames.LENGTH.pack(0))

    def close(self) -> None:
        """End all that is inside and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        if self.level == "rlimits":
            with contextlib.suppress(OSError):
                wipe(self._folder)
                os.rmdir(self._folder)

    def _start(self, folder_bytes: int) -> None:
        try:
            self._process = subprocess.Popen(
                command(self.level, self._folder, folder_bytes),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**ENVIRONMENT, **{name: os.environ[name] for name in MARKS if name in os.environ}},
                bufsize=0,
            )
            hello = self._receive(time.monotonic() + START_LIMIT_S)
        except (OSError, SandboxEnded) as error:
            raise SandboxError(f"the sandbox does not start: {self._last_words() or error}") from None
        self.files_closed = hello == b"ready"

    def _exchange(self, body: bytes, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        self._write(frames.LENGTH.pack(len(body)) + body)
        return self._receive(deadline)

    def _write(self, data: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            raise SandboxEnded("the sandbox is closed")
        try:
            frames.write_all(self._process.stdin.fileno(), data)
        except OSError:
            raise SandboxEnded("the sandbox ended") from None

    def _receive(self, deadline: float) -> bytes:
        head = self._read(frames.LENGTH.size, deadline)
        size = frames.LENGTH.unpack(head)[0]
        if size > MAX_REPLY_BYTES:
            raise SandboxEnded("the sandbox sent nonsense")
        return self._read(size, deadline + 5.0)

    def _read(self, size: int, deadline: float) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise SandboxEnded("the sandbox is closed")
        fd, parts = self._process.stdout.fileno(), bytearray()
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        while len(parts) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.poll(left * 1000 + 1):
                raise SandboxEnded("the sandbox did not answer in time")
            part = os.read(fd, min(size - len(parts), _MB))
            if not part:
                raise SandboxEnded("the sandbox ended")
            parts += part
        return bytes(parts)

    def _last_words(self) -> str:
        """What a sandbox that did not start wrote to its standard error: the last line."""
        process = self._process
        if process is None or process.stderr is None:
            return ""
        process.kill()
        process.wait()
        os.set_blocking(process.stderr.fileno(), False)
        lines = _text(process.stderr.read(4000) or b"").strip().splitlines()
        return lines[-1] if lines else ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
