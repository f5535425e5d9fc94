"""Completions of a fast engine that wait a moment for others, so that the controller is woken less often."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.records import Completion

HOLD_S = 0.02
"""Longest wait. An engine whose decode step takes longer holds nothing back; in the demo it halves the messages."""

SHARE_OF_SLOTS = 4  # 1 / this: so many slots at most stand empty for want of the controller's knowing it


class HeldCompletions:
    """Times are in seconds of one clock."""

    def __init__(self, num_slots: int) -> None:
        self._most = max(1, num_slots // SHARE_OF_SLOTS)
        self._held: list[Completion] = []
        self._since = 0.0

    def add(self, completions: Sequence[Completion], now: float) -> None:
        if not self._held:
            self._since = now
        self._held += completions

    def due(self, now: float, step_s: float) -> bool:
        """Whether they should go now, the next decode step taking ``step_s``."""
        return bool(self._held) and (len(self._held) >= self._most or now + step_s > self._since + HOLD_S)

    def take(self) -> tuple[Completion, ...]:
        """All that are held, oldest first; none is held afterwards."""
        held, self._held = tuple(self._held), []
        return held
