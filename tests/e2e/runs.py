"""A ``headrace`` command that runs, and what is left of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.orphans import RUN_ID_VARIABLE, find

SMALL = ("batch.groups_per_step=8", "eval.num_prompts=32", "eval.every_steps=0")


@dataclass
class Started:
    """A running ``headrace`` command."""

    process: subprocess.Popen[str]
    runs: Path

    def folder(self, timeout_s: float = 60.0) -> Path:
        """The run folder, as soon as it is there."""
        return wait_for(lambda: next(iter(sorted(self.runs.glob("*"))), None), timeout_s, "a run folder")

    def pid_of(self, role: str, timeout_s: float = 60.0) -> int:
        """Process id of a role, as soon as it runs."""
        return wait_for(lambda: role_pid(self.process.pid, role), timeout_s, f"the process of {role}")

    def run_id(self) -> str:
        """The id every process of the run carries."""
        environment = Path(f"/proc/{self.pid_of('controller')}/environ").read_bytes().split(b"\0")
        prefix = f"{RUN_ID_VARIABLE}=".encode()
        return next(word.removeprefix(prefix).decode() for word in environment if word.startswith(prefix))

    def wait_for_steps(self, steps: int, timeout_s: float = 120.0) -> None:
        """Until ``steps`` lines are in metrics.jsonl."""
        path = self.folder() / "metrics.jsonl"
        wait_for(lambda: path.exists() and len(path.read_text().splitlines()) >= steps, timeout_s, f"{steps} steps")


def wait_for(found: Callable[[], object], timeout_s: float, what: str):  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s} s for {what}")


def role_pid(parent: int, role: str) -> int | None:
    """The child of ``parent`` whose command line names the role."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            ppid = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if ppid == parent and role.encode() in words:
            return int(entry.name)
    return None


def gone_within(run_id: str, timeout_s: float) -> bool:
    """Whether every process of the run has ended within the time."""
    deadline = time.monotonic() + timeout_s
    while find(run_id):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def shared_memory_files() -> set[str]:
    return {p.name for p in Path("/dev/shm").glob("*headrace*")}
