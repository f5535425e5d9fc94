"""A disk that is full costs log rows, not the run: they are counted, one warning is given, later writes are tried."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("headrace.tracking")

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class DiskFull:
    """Survives a disk without space for one kind of log; every other error is raised. ``kind`` is for the warning."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._warned = False

    @contextmanager
    def survive(self) -> Iterator[None]:
        """What is written within may find no space. Whoever uses this counts what did not get written."""
        try:
            yield
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            if not self._warned:
                self._warned = True
                logger.warning("the disk is full: %s are not written for now, the run goes on (%s)", self.kind, error)
