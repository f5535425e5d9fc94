"""How a run ended, and the words for a role that ended when it should not have."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.errors import RoleDied
from headrace.runtime.local import RoleProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A run that ended without an error.

    ``done``: the primary role finished and every process ended by itself. ``stopped``: the same, after a request to
    stop. ``killed``: it was asked to stop, and ``unfinished`` roles did not within the grace time (if they got it).
    ``exit_code`` is 0, or 128 + the signal that asked (130 for Ctrl-C).
    """

    status: Literal["done", "stopped", "killed"]
    result: Any
    exit_code: int
    wall_s: float
    num_orphans: int
    unfinished: tuple[str, ...] = ()


def died(process: RoleProcess, message: str = "") -> RoleDied:
    """The error that names the role, how it ended, and what it wrote last."""
    failure = process.failure
    if failure is not None and failure.headrace_error and failure.exit_code == 2:
        # A mistake of the user's, in words meant for the user.
        return RoleDied(f"{process.name}: {failure.message}", role=process.name, exit_code=2)
    lines = [message or how_it_ended(process)]
    tail = process.log_tail()
    if tail:
        lines += [f"Last lines of {process.log_path}:", *(f"  {line}" for line in tail)]
    code = failure.exit_code if failure is not None else 1
    return RoleDied("\n".join(lines), role=process.name, exit_code=code)


def how_it_ended(process: RoleProcess) -> str:
    """One sentence: what the role raised, or the signal or code its process ended with."""
    after = f"after {(process.ended_at or time.monotonic()) - process.started_at:.1f} s"
    if process.failure is not None:
        return f"{process.name} failed {after}: {process.failure.error_type}: {process.failure.message}"
    if process.exit_code is None:
        return f"{process.name} has not ended {after}"
    if process.exit_code < 0:
        hint = " (by the system, if memory ran out)" if process.exit_code == -signal.SIGKILL else ""
        return f"{process.name} was ended by {_signal_name(-process.exit_code)} {after}{hint}"
    if process.exit_code == 0:
        return f"{process.name} ended {after}, although the run was not over"
    return f"{process.name} ended with exit code {process.exit_code} {after}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def first_cause(failed: Sequence[RoleProcess]) -> RoleProcess:
    """Which of several roles to name: one that only lost a channel is a consequence; else the one seen first."""
    causes = [process for process in failed if not process.lost]
    return causes[0] if causes else failed[0]
