"""What a run has spent and where its time went, between the first admission and the last update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.pipeline.messages import Usage
from headrace.tracking.eval_log import Compute


@dataclass(slots=True)
class Totals:
    """Clocks and counters. ``clock`` gives seconds; usages are by generator name and only grow."""

    clock: Callable[[], float]
    num_parameters: int
    num_threads: int  # compute threads (devices) of trainer and generators together
    started: float | None = None
    ended: float | None = None
    train_s: float = 0.0
    publish_s: float = 0.0
    tokens_trained: int = 0
    trainer_flops: float = 0.0
    steps: int = 0
    max_lag: int = 0
    _usage_at_start: Mapping[str, Usage] | None = None
    _usage: Mapping[str, Usage] | None = None

    def begin(self, usage: Mapping[str, Usage]) -> None:
        """The first admission."""
        self.started = self.clock()
        self._usage_at_start = dict(usage)
        self._usage = dict(usage)

    def see(self, usage: Mapping[str, Usage]) -> None:
        self._usage = dict(usage)

    def end(self, usage: Mapping[str, Usage]) -> None:
        """The last update."""
        if self.started is not None and self.ended is None:
            self.ended = self.clock()
            self.see(usage)

    @property
    def wall_s(self) -> float:
        if self.started is None:
            return 0.0
        return (self.ended if self.ended is not None else self.clock()) - self.started

    @property
    def trainer_idle_frac(self) -> float:
        """Share of the time in which the trainer neither trained nor published."""
        return _idle(self.train_s + self.publish_s, self.wall_s)

    @property
    def generator_idle_frac(self) -> float:
        """Share of all generators' time in which they neither decoded nor took weights."""
        pairs = self._pairs()
        busy = sum(now.busy_s + now.load_s - then.busy_s - then.load_s for then, now in pairs)
        return _idle(busy, self.wall_s * max(len(pairs), 1))

    @property
    def tokens_generated(self) -> int:
        return sum(now.num_tokens - then.num_tokens for then, now in self._pairs())

    def compute(self) -> Compute:
        """Training's cost so far; sampling 2 and training 6 FLOPs a parameter and token."""
        prefill = sum(now.num_prefill_tokens - then.num_prefill_tokens for then, now in self._pairs())
        return Compute(
            device_s=self.wall_s * self.num_threads,
            flops=self.trainer_flops + 2.0 * self.num_parameters * (self.tokens_generated + prefill),
            tokens_generated=self.tokens_generated,
            tokens_trained=self.tokens_trained,
            steps=self.steps,
        )

    def _pairs(self) -> list[tuple[Usage, Usage]]:
        now = self._usage or {}
        then = self._usage_at_start or {}
        return [(then.get(name, Usage()), usage) for name, usage in now.items()]


def _idle(busy_s: float, wall_s: float) -> float:
    return min(max(1.0 - busy_s / wall_s, 0.0), 1.0) if wall_s > 0 else 0.0
