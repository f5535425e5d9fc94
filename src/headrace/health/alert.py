"""What a health rule says, in the order a reader needs it: what is wrong, how we know, why, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "alarm"]
LEVELS: tuple[Level, ...] = ("info", "warning", "alarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One finding.

    ``info``: worth knowing. ``warning``: the run works, less well than it could. ``alarm``: the run is likely to learn
    nothing, or the wrong thing. ``evidence`` holds the figure and the threshold it crossed.
    """

    level: Level
    name: str
    evidence: str
    cause: str
    fix: str

    def __str__(self) -> str:
        return f"{self.level}: {self.name}: {self.evidence}. {self.cause} {self.fix}"
