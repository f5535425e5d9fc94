"""The command that starts the process inside the sandbox, for each level."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path

from headrace.verifiers.sandbox.inside.namespaces import DEVICES

INSIDE = Path(__file__).resolve().parent / "inside"
_BOOT = "import sys; sys.path.insert(0, {place!r}); from inside.main import main; main(sys.argv[1:])"
_INNER_HOME = "/headrace"
MARKS = ("HEADRACE_RUN_ID", "HEADRACE_VERIFIER")
"""By these in a process's environment, what is left of a run or a verifier is found from outside."""

ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def command(level: str, folder: str, folder_bytes: int) -> list[str]:
    """Arguments of the process. ``folder`` is the temporary one; it exists already for level 'rlimits' only.

    Raises ``FileNotFoundError`` when the level needs a program that is not installed.
    """
    paths = readable_paths()
    if level != "bubblewrap":
        return _python(str(INSIDE.parent), [level, str(os.getpid()), folder, str(folder_bytes), *paths])
    found = shutil.which("bwrap")
    if found is None:
        raise FileNotFoundError("bwrap is not installed (Debian: apt-get install bubblewrap)")
    wrap = [found, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--as-pid-1"]
    wrap += ["--cap-drop", "ALL", "--uid", "65534", "--gid", "65534"]
    for path in paths:
        wrap += ["--ro-bind-try", path, path]
    for device in DEVICES:
        wrap += ["--dev-bind-try", device, device]
    wrap += ["--ro-bind", str(INSIDE), f"{_INNER_HOME}/inside"]
    wrap += ["--size", str(folder_bytes), "--tmpfs", folder, "--remount-ro", "/", "--chdir", folder, "--"]
    return [*wrap, *_python(_INNER_HOME, [level, "0", folder, str(folder_bytes), *paths])]


@functools.cache
def interpreter() -> str:
    """The real interpreter behind a virtual environment: programs get the standard library and nothing else."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@functools.cache
def readable_paths() -> list[str]:
    """What an interpreter needs of the file system, without doubles and without what does not exist."""
    prefix = sys.base_prefix
    paths = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", f"{prefix}/lib", f"{prefix}/lib64", interpreter()]
    paths += ["/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"]
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _python(place: str, arguments: list[str]) -> list[str]:
    return [interpreter(), "-I", "-S", "-c", _BOOT.format(place=place), *arguments]
