"""Typed errors. A user mistake names the key or row, what was found and what is allowed; a fault names the role."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HeadraceError(Exception):
    """Base class. ``exit_code`` is what the command line ends with."""

    exit_code = 1


class ConfigError(HeadraceError):
    """A recipe, override or command-line value that cannot be used. Raised before any model loads."""

    exit_code = 2


class DataError(HeadraceError):
    """A data file, row or model folder that cannot be used."""

    exit_code = 2


class RecordError(HeadraceError):
    """A record that breaks its own invariants; raised by ``records.check`` at a process border."""


class LagViolation(HeadraceError):  # noqa: N818 - a violation is what it is
    """A token would be trained at a lag above the bound, or below zero. Never caught: the run stops."""


class RoleDied(HeadraceError):  # noqa: N818
    """A process of the run ended although it should not have.

    ``role`` is the name of the process. ``exit_code`` is 1, or what the error it died of asks for (2 for a mistake of
    the user's that only the role could see).
    """

    def __init__(self, message: str, *, role: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.role = role
        self.exit_code = exit_code


class ChannelClosed(HeadraceError):  # noqa: N818
    """The other end of a channel is gone. The message names it; usually its process is what went wrong."""


class WaitTimeout(HeadraceError):  # noqa: N818
    """A wait ran out. The message says what was waited for, and for how long."""


class PublicationError(HeadraceError):
    """Weights were published that a generator did not take, or that it reproduces wrongly."""


class CheckpointError(HeadraceError):
    """A checkpoint that cannot be used. The message names the file and says why."""


class VerifierBroken(HeadraceError):  # noqa: N818
    """More verifications failed for reasons of our making than the run allows."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """A hint naming the closest allowed spelling: ``" Did you mean 'x'?"``, or ``""`` when nothing is close."""
    match = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return f" Did you mean '{match[0]}'?" if match else ""
