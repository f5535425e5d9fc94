"""Landlock: a process gives up all files but a few, without any privilege (linux/landlock.h).

A process under it cannot trace processes outside either, nor read their memory through /proc.
"""

from __future__ import annotations

import ctypes
import os

from .libc import LIBC, PR_SET_NO_NEW_PRIVS, checked, prctl

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_READ = 1 << 2 | 1 << 3  # read file, read folder
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_NUM_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # of the file system, by version of the interface; 16 from 5 on


def version() -> int:
    """Version of the kernel's interface; 0 where there is none."""
    return max(0, LIBC.syscall(_CREATE, None, ctypes.c_size_t(0), 1))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("fd", ctypes.c_int32))


def restrict(readable: list[str], writable: str, devices: tuple[str, ...]) -> bool:
    """Leave this process and its children ``readable``, everything under ``writable`` and ``devices``; whether it did.

    Raises ``OSError`` when the kernel has Landlock and refuses.
    """
    found = version()
    if not found:
        return False
    every = (1 << _NUM_RIGHTS.get(found, 16)) - 1
    attribute = ctypes.c_uint64(every)
    ruleset = checked(LIBC.syscall(_CREATE, ctypes.byref(attribute), ctypes.c_size_t(8), 0), "landlock_create_ruleset")
    for path in readable:
        _allow(ruleset, path, _READ | _EXECUTE)
    for path in devices:
        _allow(ruleset, path, 1 << 2 | _WRITE_FILE)
    _allow(ruleset, writable, every)
    prctl(PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")
    checked(LIBC.syscall(_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    if not os.path.exists(path):
        return
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        rights &= 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14  # execute, write, read, truncate: what a file has
        if version() < 3:
            rights &= 7
    rule = _PathRule(rights, fd)
    try:
        checked(LIBC.syscall(_ADD, ruleset, 1, ctypes.byref(rule), 0), f"landlock_add_rule {path}")
    finally:
        os.close(fd)
