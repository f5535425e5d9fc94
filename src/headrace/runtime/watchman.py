"""Outlives the supervisor by a moment: ends the run's processes when the supervisor was killed and cannot.

A role that is busy outside Python cannot end its group in time, and what it started (verifier workers, an engine's own
processes) would stay. So one small process holds the end of a pipe and is told the process groups of the run; when the
pipe closes without a word of goodbye, it kills those groups and everything that carries the run's id.

It runs as a file, without packages: ``python -I -S watchman.py RUN_ID`` starts in about 20 ms and takes a few MB.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main(run_id: str) -> int:
    """Read "+GROUP", "-GROUP" and "goodbye" lines; on a sudden end, kill the groups and whatever else is left."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        word = line.strip()
        if word == "goodbye":
            return 0
        if word.startswith("+"):
            groups.add(int(word[1:]))
        elif word.startswith("-"):
            groups.discard(int(word[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import orphans  # type: ignore[import-not-found]  # the file beside this one; the package is out of reach

    orphans.end(run_id)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
