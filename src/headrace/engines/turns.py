"""Whose turn a decode step is: the policy's sequences or the pinned ones."""

from __future__ import annotations

from headrace.records import WeightSet

PINNED_SHARE = 0.25  # of decode steps, while policy sequences wait for theirs


class Turns:
    """Counts steps, not time, so that a run's interleaving is reproducible."""

    def __init__(self, share: float = PINNED_SHARE) -> None:
        self._share = share
        self._credit = 0.0

    def take(self, *, policy: bool, pinned: bool) -> WeightSet | None:
        """The weight set to serve now, given which have work; None when neither has."""
        if not (policy and pinned):
            return "policy" if policy else "pinned" if pinned else None
        self._credit += self._share
        if self._credit < 1.0:
            return "policy"
        self._credit -= 1.0
        return "pinned"
