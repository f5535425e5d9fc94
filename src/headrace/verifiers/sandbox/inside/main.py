"""The process that waits inside the sandbox, started once for many programs under test.

For each program it forks a *keeper*, which reads the program from the pipe, runs its tests one after the other, empties
the temporary folder and ends: nothing of a program remains in the process that the next one is forked from.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import select
import signal
import sys

from . import frames, keeper, landlock, namespaces
from .libc import PR_SET_DUMPABLE, drop_capabilities, follow_parent, prctl

CONTROL_IN, CONTROL_OUT = 100, 101
WARM = (
    "bisect collections copy datetime decimal fractions functools heapq io itertools json math operator random re "
    "string threading typing"
)
"""Modules that programs import most, imported once."""


def main(arguments: list[str]) -> None:
    """``arguments``: level, parent's process id (0: it cannot be seen), temporary folder, its size in bytes, paths to
    read."""
    level, parent, folder, size, *paths = arguments
    if int(parent):
        follow_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(0, CONTROL_IN)
    os.dup2(1, CONTROL_OUT)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    if level == "namespaces":
        namespaces.enter(paths, folder, int(size))
    os.chdir(folder)
    closed_off = landlock.restrict(paths, folder, namespaces.DEVICES) if level == "rlimits" else True
    drop_capabilities()
    prctl(PR_SET_DUMPABLE, 0, "prctl(PR_SET_DUMPABLE)")
    for name in WARM.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # the collector of a fork need not look at what all forks share
    sys.path[:] = [path for path in sys.path if path not in ("", os.path.dirname(os.path.dirname(__file__)))]
    _send(b"ready" if closed_off else b"ready, files open")
    _serve(folder)


def _serve(folder: str) -> None:
    waiting = select.poll()
    waiting.register(CONTROL_IN, select.POLLIN)
    while any(event & select.POLLIN for _, event in waiting.poll()):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _keep(folder)
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            os._exit(1)


def _keep(folder: str) -> None:
    """Run the tests of one program; an empty frame is its end."""
    while body := frames.read_frame(CONTROL_IN):
        request = marshal.loads(body)
        request["folder"] = folder
        reply = keeper.run(request)
        keeper.wipe(folder)
        _send(reply)


def _send(body: bytes) -> None:
    frames.write_all(CONTROL_OUT, frames.LENGTH.pack(len(body)) + body)
