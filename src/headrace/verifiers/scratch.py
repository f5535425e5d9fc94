"""Temporary folders that go with their owner, also when the owner is killed: the next one takes them away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time

from headrace.verifiers.sandbox.inside.keeper import wipe

PREFIX = "headrace-verifier-"
_YOUNG_S = 60.0


class Scratch:
    """A folder of ours, locked as long as this process lives and has not removed it."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Take it away with all that is in it. May be called twice."""
        if self._fd >= 0:
            _remove(self.path)
            os.close(self._fd)
            self._fd = -1


def sweep() -> None:
    """Remove folders whose owner is no more: nobody holds their lock, and they are not just being made."""
    for name in os.listdir(tempfile.gettempdir()):
        path = os.path.join(tempfile.gettempdir(), name)
        with contextlib.suppress(OSError):
            if name.startswith(PREFIX) and os.stat(path).st_mtime < time.time() - _YOUNG_S:
                _remove_if_free(path)


def _remove_if_free(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        wipe(path)
        os.rmdir(path)
