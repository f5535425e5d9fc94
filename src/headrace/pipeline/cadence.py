"""When something is done that is done every N steps and every M minutes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Cadence:
    """``every_steps`` counts from step 0, ``every_s`` from the last time it was done; 0 = not by this one.

    ``last_time`` is a time of the run's clock, in seconds.
    """

    every_steps: int
    every_s: float
    last_step: int = 0
    last_time: float = 0.0

    def due(self, step: int, now: float) -> bool:
        """Whether it is to be done at this step, once a step."""
        by_step = self.every_steps > 0 and step > self.last_step and step % self.every_steps == 0
        return by_step or (self.every_s > 0 and step > self.last_step and now - self.last_time >= self.every_s)

    def done(self, step: int, now: float) -> None:
        self.last_step, self.last_time = step, now
