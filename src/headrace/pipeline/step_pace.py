"""What happens a second between two steps: tokens on both sides, and the controller's own share of a core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Mark:
    time_s: float
    cpu_s: float
    tokens_generated: int


class StepPace:
    """``clock`` gives wall seconds, ``cpu_clock`` this process's CPU seconds (all threads)."""

    def __init__(self, clock: Callable[[], float], cpu_clock: Callable[[], float]) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._last: _Mark | None = None

    def step(self, *, tokens_trained: int, tokens_generated: int) -> dict[str, float]:
        """Figures since the step before, {} at the first. ``tokens_generated`` is the total so far."""
        mark = _Mark(self._clock(), self._cpu_clock(), tokens_generated)
        last, self._last = self._last, mark
        if last is None or mark.time_s <= last.time_s:
            return {}
        seconds = mark.time_s - last.time_s
        return {
            "trainer/tokens_per_s": tokens_trained / seconds,
            "generator/tokens_per_s": (mark.tokens_generated - last.tokens_generated) / seconds,
            "controller/cpu_frac": (mark.cpu_s - last.cpu_s) / seconds,
        }
