"""Everything a verifier process started, found and ended from outside: children, their children, those that ran away.

A process is found by its parents, by the session it began in, or by a mark in its environment; only one that cleans its
environment, leaves the session and outlives its parent before anybody looks is lost. The reader is Linux's /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

MARK = "HEADRACE_VERIFIER"


def members(root: int, mark: str) -> set[int]:
    """Process ids (without zombies) that belong to the session leader ``root`` or carry ``mark``, ``root`` included."""
    parents: dict[int, int] = {}
    found = set()
    wanted = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        pid = int(name)
        status = _status(pid)
        if status is None:
            continue
        parents[pid], session = status
        if session == root or wanted in _environment(pid):
            found.add(pid)
    found.discard(os.getpid())
    return found | _below(root, parents)


def kill(pids: set[int]) -> None:
    """Kill processes that may be gone already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end(root: int, mark: str, timeout_s: float = 2.0) -> None:
    """Kill them all, until nobody is left or the time is up. The caller still has to wait for its child ``root``."""
    deadline = time.monotonic() + timeout_s
    while (left := members(root, mark)) and time.monotonic() < deadline:
        kill(left)
        time.sleep(0.002)


def resident_bytes(pid: int) -> int:
    """Memory of one process that is in RAM now; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _below(root: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = {root} & parents.keys()
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return found


def _status(pid: int) -> tuple[int, int] | None:
    """(parent, session) of a process; None for one that is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else (int(fields[1]), int(fields[3]))


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
