"""Anonymous memory that several processes map: it has no name, so nothing is left behind, however they end."""

from __future__ import annotations

import errno
import os
import tempfile

from headrace.errors import HeadraceError


def anonymous_memory(nbytes: int, *, label: str = "headrace") -> int:
    """A file descriptor of ``nbytes`` zero bytes of memory; the caller owns it.

    The memory is reserved now: too little of it is an error here, not a SIGBUS in whoever touches it later. Where
    there is no ``memfd_create`` (outside Linux) it is a temporary file that is already unlinked.
    """
    available = _available()
    if available is not None and nbytes > available:
        raise HeadraceError(
            f"cannot reserve {nbytes / 1e6:.1f} MB of shared memory: {available / 1e6:.1f} MB are available"
        )
    fd = _open(label)
    try:
        _reserve(fd, nbytes)
    except OSError as error:
        os.close(fd)
        raise HeadraceError(f"cannot reserve {nbytes / 1e6:.1f} MB of shared memory: {error.strerror}") from error
    return fd


def _available() -> int | None:
    """Bytes of memory this machine can still give out; None where the kernel does not say.

    Asking comes first because the kernel would reserve page by page, and end some process when it runs out.
    """
    try:
        with open("/proc/meminfo") as file:
            found = [line.split()[1] for line in file if line.startswith("MemAvailable:")]
    except OSError:
        return None
    return int(found[0]) * 1024 if found else None


def _open(label: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(label)
    with tempfile.TemporaryFile(prefix=f"{label}-") as file:
        return os.dup(file.fileno())


def _reserve(fd: int, nbytes: int) -> None:
    os.ftruncate(fd, nbytes)
    if not hasattr(os, "posix_fallocate") or nbytes == 0:
        return
    try:
        os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
