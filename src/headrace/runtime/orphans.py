"""Finds and ends what is left of a run, from outside: every process of it carries the run's id in its environment.

Only the standard library is used, and nothing of headrace: the watchman runs this file by itself, without packages.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

RUN_ID_VARIABLE = "HEADRACE_RUN_ID"


def find(run_id: str, exclude: Iterable[int] = ()) -> list[int]:
    """Process ids that carry ``run_id``, without ``exclude`` and this process; zombies do not count.

    Empty where there is no /proc (outside Linux), and blind to processes of other users.
    """
    wanted = f"{RUN_ID_VARIABLE}={run_id}".encode()
    skip = {os.getpid(), *exclude}
    return [pid for pid in _all_pids() if pid not in skip and wanted in _environment(pid)]


def end(run_id: str, exclude: Iterable[int] = (), timeout_s: float = 5.0) -> list[int]:
    """Kill every process that carries ``run_id`` until none is left; the ids of those still there at the time-out."""
    skip = tuple(exclude)
    deadline = time.monotonic() + timeout_s
    while True:
        left = find(run_id, skip)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def wait_gone(run_id: str, exclude: Iterable[int] = (), timeout_s: float = 2.0) -> list[int]:
    """Wait for processes that were killed to be gone; the ids of those still there at the time-out."""
    skip = tuple(exclude)
    deadline = time.monotonic() + timeout_s
    while True:
        left = find(run_id, skip)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def command_line(pid: int) -> str:
    """What a process was started as, for messages; "" when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _all_pids() -> list[int]:
    if not sys.platform.startswith("linux"):
        return []
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
