"""Roles as processes of this machine: starting one, looking at it, ending its group."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import site
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import headrace
from headrace.errors import HeadraceError
from headrace.runtime import watchman
from headrace.runtime.orphans import RUN_ID_VARIABLE
from headrace.runtime.role_spec import RoleSpec, Start
from headrace.transports import control
from headrace.transports.channel import Channel, pair

CONTROL_TIMEOUT_S = 30.0
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)


def role_environment(spec: RoleSpec, run_id: str, import_path: Sequence[str] = ()) -> dict[str, str]:
    """The environment of a role's process: this one's, the run id, the thread limits, and where to import from."""
    environment = dict(os.environ)
    environment.update(dict.fromkeys(_THREAD_VARIABLES, str(spec.threads)))
    environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    environment["PYTHONUNBUFFERED"] = "1"  # the log is complete when a role is killed
    environment["PYTHONFAULTHANDLER"] = "1"  # and says where, when it crashes in C
    environment["PYTHONPATH"] = _python_path(import_path, environment.get("PYTHONPATH", ""))
    environment[RUN_ID_VARIABLE] = run_id
    environment.update(spec.env)
    return environment


def _python_path(import_path: Sequence[str], inherited: str) -> str:
    package_root = str(Path(headrace.__file__).resolve().parents[1])
    entries = [*import_path, *filter(None, inherited.split(os.pathsep))]
    # An installed package is found without help, and site-packages must not come before the standard library.
    if package_root not in {*site.getsitepackages(), site.getusersitepackages()}:
        entries.insert(0, package_root)
    return os.pathsep.join(dict.fromkeys(os.path.abspath(entry) for entry in entries))


def _check_pickles(start: Start) -> None:
    try:
        pickle.dumps(start, protocol=5)
    except Exception as error:
        raise HeadraceError(f"the arguments of {start.spec.name} cannot be sent to a process: {error}") from error


class RoleProcess:
    """A role that was started as a process, leading a process group of its own. ``pid`` names both."""

    def __init__(
        self, spec: RoleSpec, *, run_id: str, run_folder: Path, import_path: Sequence[str] = (), attempt: int = 0
    ) -> None:
        """Start the process. Raises ``HeadraceError`` when that is impossible."""
        self.spec = spec
        self.name = spec.name
        self.attempt = attempt
        self.log_path = run_folder / "logs" / f"{spec.name}.log"
        self.failure: control.Failed | None = None
        self.finished = False  # it said that its work is done
        self.exit_code: int | None = None  # negative: the signal that ended it
        self.started_at = time.monotonic()
        self.ended_at: float | None = None
        start = Start(spec=spec, run_id=run_id, run_folder=str(run_folder))
        _check_pickles(start)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self.control, theirs = pair("the supervisor", spec.name)
        self.control.send_timeout_s = CONTROL_TIMEOUT_S
        try:
            self._popen = self._start(theirs, role_environment(spec, run_id, import_path))
        except OSError as error:
            self.control.close()
            raise HeadraceError(f"cannot start {spec.name}: {error}") from error
        finally:
            theirs.close()
        self.pid = self._popen.pid
        with contextlib.suppress(HeadraceError):  # it ended at once: the caller will see that
            self.control.send(start)

    def _start(self, theirs: Channel, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        python = self.spec.python or sys.executable
        # -P: a file in the working directory must not take the place of a library.
        command = [python, "-P", "-m", "headrace.runtime.role_host", "--control", str(theirs.fileno())]
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            return subprocess.Popen(
                [*command, "--parent", str(os.getpid()), "--name", self.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    @property
    def lost(self) -> bool:
        """It failed because a channel was closed by its other end: most likely a consequence, not a cause."""
        return self.failure is not None and self.failure.channel_closed

    def poll(self) -> int | None:
        """The exit code once the process has ended (negative: by that signal); what it left in its group is killed.

        The group is killed before the process is reaped, while its id cannot belong to anybody else.
        """
        if self.exit_code is None and self._has_ended():
            self.kill_group()
            self._reap(None)
        return self.exit_code

    def _has_ended(self) -> bool:
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._popen.poll() is not None

    def kill(self, timeout_s: float = 10.0) -> int | None:
        """SIGKILL the whole group and wait for the process; None when the kernel cannot end it in ``timeout_s``."""
        if self.exit_code is None:
            self.kill_group()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._reap(timeout_s)
        return self.exit_code

    def kill_group(self) -> None:
        """SIGKILL the whole group without waiting; nothing happens once the process was reaped."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _reap(self, timeout_s: float | None) -> None:
        self.exit_code = self._popen.wait(timeout_s)
        self.ended_at = time.monotonic()

    def ask_to_stop(self, reason: control.StopReason) -> None:
        """Send the message to end; a process that is gone, or does not read, is left to the caller's time limit."""
        with contextlib.suppress(HeadraceError):
            self.control.send(control.StopRole(reason=reason))

    def log_tail(self, num_lines: int = 20) -> list[str]:
        """The last lines this process wrote, without trailing empty ones."""
        with contextlib.suppress(OSError), open(self.log_path, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self.log_start, size - 16384))
            return log.read().decode(errors="replace").rstrip().splitlines()[-num_lines:]
        return []

    def close(self) -> None:
        """Close the control channel. If the process still lives, it kills its group."""
        self.control.close()


class Watchman:
    """The supervisor's hold on the process that cleans up after a supervisor that was killed."""

    def __init__(self, run_id: str) -> None:
        self._popen: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-I", "-S", watchman.__file__, run_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, RUN_ID_VARIABLE: run_id},
            start_new_session=True,
        )
        self.pid = self._popen.pid

    def watch(self, group: int) -> None:
        """Kill this process group, too, if the supervisor ends without ``dismiss``."""
        self._write(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group is gone; its number may soon be somebody else's."""
        self._write(f"-{group}\n")

    def dismiss(self, timeout_s: float = 5.0) -> None:
        """End it: the supervisor has cleaned up by itself."""
        self._write("goodbye\n")
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._popen.stdin is not None
        return self._popen.stdin

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # somebody killed it: the roles still have their own guards
            self._pipe.write(line.encode())
            self._pipe.flush()
