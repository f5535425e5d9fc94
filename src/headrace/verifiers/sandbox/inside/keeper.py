"""Watches one run of a program under test: feeds it, keeps what it says up to a cap, ends it at its limits."""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from typing import Any

from . import candidate, frames

ERRORS_KEPT = 2000
_CHUNK = 1 << 16


def run(request: dict[str, Any]) -> bytes:
    """Run one test in a process of its own; the reply's body (``frames.reply_bytes``)."""
    start, parent = time.monotonic(), os.getpid()
    try:
        (in_read, in_write), *outs = [os.pipe() for _ in range(4)]
        pid = os.fork()
    except OSError as error:  # the machine's fault: no program runs yet
        return frames.reply_bytes(frames.BROKEN, 0, 0.0, str(error).encode(), b"", b"")
    if pid == 0:
        candidate.live(request, (in_read, outs[0][1], outs[1][1], outs[2][1]), parent)
    for fd in (in_read, *(write for _, write in outs)):
        os.close(fd)
    watch = _Watch(pid, in_write, [read for read, _ in outs], request)
    try:
        how = watch.until_end(start + request["time_s"])
    finally:
        watch.close()
    seconds = time.monotonic() - start
    code = os.waitstatus_to_exitcode(watch.status)
    output, errors, result = (bytes(part) for part in watch.kept)
    if not result.startswith(b"R"):
        return frames.reply_bytes(frames.BROKEN, code, seconds, result, b"", errors)
    if how == frames.ENDED and code < 0:
        how = frames.SIGNALLED
    return frames.reply_bytes(how, abs(code), seconds, result[1:], output, errors)


class _Watch:
    """The pipes of a run and what came through them: output, errors (its last bytes), result."""

    def __init__(self, pid: int, feed_fd: int, read_fds: list[int], request: dict[str, Any]) -> None:
        self.kept = (bytearray(), bytearray(), bytearray())
        self.status = 0
        self._pid, self._cap = pid, request["output_bytes"]
        self._seen = [0, 0, 0]
        self._fds = dict(zip(read_fds, range(3), strict=True))
        self._feed_fd: int | None = feed_fd
        self._food = memoryview(request["stdin"])
        self._ended = os.pidfd_open(pid)
        self._poll = select.poll()
        for fd in read_fds:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)
        os.set_blocking(feed_fd, False)
        self._poll.register(feed_fd, select.POLLOUT)

    def until_end(self, deadline: float) -> int:
        """Wait for the process; it is dead when this returns, and its process id free again."""
        how = frames.ENDED
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                how = frames.TIMED_OUT
                break
            ready = dict(self._poll.poll(left * 1000 + 1))
            if self._feed_fd in ready:
                self._feed()
            for fd in [fd for fd in self._fds if fd in ready]:
                self._take(fd)
            if max(self._seen) > self._cap:
                how = frames.TOO_MUCH_OUTPUT
                break
            if self._ended in ready:
                break
        os.kill(self._pid, signal.SIGKILL)
        self.status = os.waitpid(self._pid, 0)[1]
        while how == frames.ENDED and self._take_all():
            if max(self._seen) > self._cap:
                how = frames.TOO_MUCH_OUTPUT
        return how

    def close(self) -> None:
        self._stop_feeding()
        for fd in [*self._fds, self._ended]:
            os.close(fd)

    def _feed(self) -> None:
        fd = self._feed_fd
        if fd is None:
            return
        try:
            while self._food:
                self._food = self._food[os.write(fd, self._food[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not want to read any more
            pass
        self._stop_feeding()

    def _stop_feeding(self) -> None:
        if self._feed_fd is not None:
            self._poll.unregister(self._feed_fd)
            os.close(self._feed_fd)
            self._feed_fd = None

    def _take_all(self) -> bool:
        """Read from each pipe once; whether there was anything."""
        found = [self._take(fd) for fd in list(self._fds)]
        return any(found)

    def _take(self, fd: int) -> bool:
        """Read once; whether there was anything."""
        place = self._fds[fd]
        try:
            part = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if not part:
            self._poll.unregister(fd)
            os.close(fd)
            del self._fds[fd]
            return False
        self._seen[place] += len(part)
        kept = self.kept[place]
        kept += part
        if place == 1:
            del kept[:-ERRORS_KEPT]
        return True


def wipe(folder: str) -> None:
    """Empty a folder, whatever modes were put on what lies in it and however deep it goes. Links are not followed."""
    os.chmod(folder, 0o700)
    moved = 0
    while names := os.listdir(folder):
        for name in names:
            path = f"{folder}/{name}"
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for inner in os.listdir(path):
                below = f"{path}/{inner}"
                if stat.S_ISDIR(os.lstat(below).st_mode):  # up with it: names of deep folders become too long
                    os.chmod(below, 0o700)
                    moved += 1
                    os.rename(below, f"{folder}/.moved-{os.getpid()}-{moved}")
                else:
                    os.unlink(below)
            os.rmdir(path)
