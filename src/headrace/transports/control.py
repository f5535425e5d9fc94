"""What the supervisor and a role say to each other over the role's control channel.

Besides these messages the channel has one meaning of its own: its end means that the supervisor is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

StopReason = Literal["done", "interrupted", "failed"]

# supervisor -> role


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerChannel:
    """The descriptor that comes with this message is a channel to ``peer``; it replaces an older one to that peer."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The answer to a request for shared memory: its descriptor comes along, or ``error`` says why there is none."""

    request: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRole:
    """End soon. ``interrupted`` goes to the primary role alone, which ends the others and writes a checkpoint."""

    reason: StopReason


# role -> supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMemory:
    """Reserve shared memory under a name, or hand out again what has that name and size."""

    request: int
    name: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMemory:
    """Hand out the shared memory of that name, as soon as somebody has created it."""

    request: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Progress, for whoever watches the run."""

    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The role's work is done; from the primary role: the run's. ``result`` is for the caller of the supervisor."""

    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The role raised. ``headrace_error`` says that the message was written for the user."""

    error_type: str
    message: str
    traceback: str
    exit_code: int = 1
    headrace_error: bool = False
    channel_closed: bool = field(default=False)  # a consequence of somebody else's end, most likely
