"""What the pool bounds from outside: time and memory of a process, the length of the log."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Literal

from headrace.verifiers.worker_process import WorkerProcess

MAX_LOG_BYTES = 64 << 20


def over_limit(
    worker: WorkerProcess, limits_s: Mapping[int, float], memory_limit_mb: int
) -> Literal["", "time", "memory"]:
    """Which limit a process that is at one of the items of ``limits_s`` has passed; '' for none."""
    limit_s = limits_s.get(worker.current)
    if worker.busy_s() > (max(limits_s.values()) if limit_s is None else limit_s):
        return "time"
    return "memory" if worker.resident_bytes > memory_limit_mb << 20 else ""


def trim(log_path: str) -> None:
    """Empty a log that has grown too long; the processes append to it, so they go on at its start."""
    with contextlib.suppress(OSError):
        if os.path.getsize(log_path) > MAX_LOG_BYTES:
            os.truncate(log_path, 0)
