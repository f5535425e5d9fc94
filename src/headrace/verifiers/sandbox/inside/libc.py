"""The few system calls that Python has no name for."""

from __future__ import annotations

import ctypes
import os
import signal

LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38


def checked(result: int, what: str) -> int:
    """``result``, or ``OSError`` with errno when it says that a call failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int, what: str) -> None:
    checked(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), what)


def follow_parent(parent: int) -> None:
    """Die with the parent process; die now when it is gone already (``parent`` is what ``getppid`` should be)."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities() -> None:
    """Give up every capability, for good (no_new_privs forbids getting them back by a program that has some)."""
    header, none = _CapHeader(0x20080522, 0), (ctypes.c_uint32 * 6)()
    checked(LIBC.capset(ctypes.byref(header), none), "capset")
    prctl(PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")
