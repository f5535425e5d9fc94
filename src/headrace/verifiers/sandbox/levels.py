"""How well programs can be shut in on this machine, from best to least. All levels have system-call filter and limits.

- ``bubblewrap``: namespaces made by Debian's ``bubblewrap``; a small read-only file system, no /proc, no network.
- ``namespaces``: the same made by ourselves, where users may make namespaces.
- ``rlimits``: filter and limits only; files are closed off by Landlock where the kernel has it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.verifiers.sandbox.session import Sandbox, SandboxError

LEVELS = ("bubblewrap", "namespaces", "rlimits")
BEST = "best"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about a level by trying it: usable or ``fault`` says why not."""

    level: str
    fault: str = ""
    files_closed: bool = True


@functools.cache
def probe(level: str) -> Found:
    """Try a level with a small program (about 0.1 s, once a process)."""
    try:
        with Sandbox(level) as sandbox:
            reply = sandbox.run_script("import heapq, json\nprint(int(input()) + 1)", b"41")
            if reply.output.strip() != b"42":
                return Found(level, f"a test program answered {reply.output[:80]!r} {reply.errors[-300:]!r}")
            return Found(level, files_closed=sandbox.files_closed)
    except (SandboxError, OSError) as error:
        return Found(level, str(error))


def choose(demanded: str = BEST) -> Found:
    """The level to use: the demanded one, or the best there is.

    Raises ``ConfigError`` with what was found when the machine does not give it.
    """
    wanted = LEVELS if demanded == BEST else (demanded,)
    faults = []
    for level in wanted:
        found = probe(level)
        if not found.fault:
            return found
        faults.append(f"{level}: {found.fault}")
    key = (
        f"reward.code.isolation '{demanded}'" if demanded != BEST else "the isolation that reward.verifier 'code' needs"
    )
    raise ConfigError(f"{key} cannot be had here: {'; '.join(faults)}; allowed: {_usable() or 'none'}.")


def _usable() -> str:
    return ", ".join(level for level in LEVELS if not probe(level).fault)


def describe(found: Found) -> str:
    """A sentence for ``headrace check``."""
    notes = {
        "bubblewrap": "own file system, processes and network, system-call filter, limits",
        "namespaces": "own file system, processes and network without bubblewrap, system-call filter, limits",
        "rlimits": "system-call filter and limits, files closed off by Landlock",
    }
    note = notes[found.level]
    if not found.files_closed:
        note = "system-call filter and limits only: programs can read and write your files; install bubblewrap"
    return f"code isolation: {found.level} ({note})"
