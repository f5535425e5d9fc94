"""Into namespaces of our own without a helper program: user, mount, process, network, IPC and host name.

What the program under test then sees of the file system is a small read-only tree with the interpreter in it, a
temporary folder of limited size in memory, and nothing under /proc.
"""

from __future__ import annotations

import ctypes
import os
import signal

from .libc import LIBC, PR_SET_PDEATHSIG, checked, prctl

_NEW = {"NS": 0x20000, "UTS": 0x4000000, "IPC": 0x8000000, "USER": 0x10000000, "PID": 0x20000000, "NET": 0x40000000}
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 32, 4096
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
_MNT_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_INNER_ID = 65534


def enter(paths: list[str], folder: str, folder_bytes: int) -> None:
    """Return as process 1 of new namespaces; the caller's process stays outside, waits for it and ends as it ends.

    Raises ``OSError`` where the kernel or its settings refuse.
    """
    uid, gid = os.geteuid(), os.getegid()
    checked(LIBC.unshare(sum(_NEW.values())), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{_INNER_ID} {uid} 1")
    _write("/proc/self/gid_map", f"{_INNER_ID} {gid} 1")
    pid = os.fork()
    if pid:
        for fd in (100, 101):
            os.close(fd)  # or nobody outside would notice the end of the process inside
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, "prctl(PR_SET_PDEATHSIG)")
    # getppid is 0 from in here: if the parent died before this line, the closed pipe tells.
    _build_tree(paths, folder, folder_bytes)


def _build_tree(paths: list[str], folder: str, folder_bytes: int) -> None:
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    base = "/tmp"
    _mount("tmpfs", base, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    for path in [*paths, *DEVICES]:
        if os.path.exists(path):
            _bind(path, base + path, read_only=path not in DEVICES)
    os.makedirs(base + folder, exist_ok=True)
    _mount("tmpfs", base + folder, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={folder_bytes},mode=700,nr_inodes=4096")
    os.chdir(base)
    checked(LIBC.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    checked(LIBC.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    os.chdir(folder)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _mount(source, target, None, _MS_BIND | _MS_REC)
    kept = os.statvfs(target).f_flag  # options that a mount brings along may not be taken off it
    locked = kept & (_MS_NOSUID | _MS_NODEV | 8 | 1024 | 2048)  # and noexec, noatime, nodiratime
    if read_only:
        _mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | locked)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, options)]
    result = LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    checked(result, f"mount {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
