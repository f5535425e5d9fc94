"""What a run has spent and where its time went, between the first admission and the last update, over its attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.pipeline.messages import Usage
from headrace.tracking.eval_log import Compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What led to the weights of a version. A checkpoint keeps it, and the attempt that resumes adds to it.

    Steps that were trained beyond the checkpoint and thrown away are in none of these, nor is the time between the
    attempts: this is the cost of the line of weights, not of its accidents. Seconds; ``generator_s`` is the time
    generators were there, all of them together, ``generator_busy_s`` what they worked of it.
    """

    wall_s: float = 0.0
    trainer_busy_s: float = 0.0
    generator_s: float = 0.0
    generator_busy_s: float = 0.0
    max_lag: int = 0
    tokens_used: int = 0  # sampled tokens that trained, once for every step that trained them
    compute: Compute = field(default_factory=Compute)


@dataclass(slots=True)
class Totals:
    """Clocks and counters. ``clock`` gives seconds; usages are by generator name and only grow.

    ``before`` is what earlier attempts spent; all totals but ``started`` and ``ended`` go on from there.
    """

    clock: Callable[[], float]
    num_parameters: int
    num_threads: int  # compute threads (devices) of trainer and generators together
    before: Spent = field(default_factory=Spent)
    started: float | None = None
    ended: float | None = None
    _trainer_busy_s: float = 0.0
    _tokens_trained: int = 0
    _trainer_flops: float = 0.0
    _tokens_used: int = 0
    _steps: int = 0
    _max_lag: int = 0
    _usage_at_start: Mapping[str, Usage] = field(default_factory=dict)
    _usage: Mapping[str, Usage] = field(default_factory=dict)

    def begin(self, usage: Mapping[str, Usage]) -> None:
        """The first admission."""
        self.started = self.clock()
        self._usage_at_start = dict(usage)
        self._usage = dict(usage)

    def see(self, usage: Mapping[str, Usage]) -> None:
        """What generators did after the last update is no part of training."""
        if self.ended is None:
            self._usage = dict(usage)

    def step(self, *, busy_s: float, num_tokens: int, num_trainable: int, flops: float, lag: int) -> None:
        """A step is done: the trainer's seconds (publication included), its tokens (all, and those it trained) and
        FLOPs, the largest lag."""
        self._trainer_busy_s += busy_s
        self._tokens_trained += num_tokens
        self._tokens_used += num_trainable
        self._trainer_flops += flops
        self._steps += 1
        self._max_lag = max(self._max_lag, lag)

    def end(self, usage: Mapping[str, Usage]) -> None:
        """The last update."""
        if self.started is not None and self.ended is None:
            self.see(usage)
            self.ended = self.clock()

    @property
    def wall_s(self) -> float:
        return self.before.wall_s + self._own_wall_s

    @property
    def steps(self) -> int:
        return self.before.compute.steps + self._steps

    @property
    def tokens_generated(self) -> int:
        return self.before.compute.tokens_generated + sum(now.num_tokens - then.num_tokens for then, now in self._pairs)

    @property
    def utilisation(self) -> float:
        """Tokens trained over tokens sampled for training: below 1 by what waits, was dropped or taught nothing, and
        above it when groups train more than once. 0 before the first token."""
        used, generated = self.before.tokens_used + self._tokens_used, self.tokens_generated
        return used / generated if generated else 0.0

    @property
    def trainer_idle_frac(self) -> float:
        """Share of the time in which the trainer neither trained nor published."""
        return _idle(self.before.trainer_busy_s + self._trainer_busy_s, self.wall_s)

    @property
    def generator_idle_frac(self) -> float:
        """Share of all generators' time in which they neither decoded nor took weights."""
        spent = self.spent()
        return _idle(spent.generator_busy_s, spent.generator_s)

    def compute(self) -> Compute:
        """Training's cost so far; sampling 2 and training 6 FLOPs a parameter and token."""
        before = self.before.compute
        sampled = sum(
            now.num_tokens - then.num_tokens + now.num_prefill_tokens - then.num_prefill_tokens
            for then, now in self._pairs
        )
        return Compute(
            device_s=before.device_s + self._own_wall_s * self.num_threads,
            flops=before.flops + self._trainer_flops + 2.0 * self.num_parameters * sampled,
            tokens_generated=self.tokens_generated,
            tokens_trained=before.tokens_trained + self._tokens_trained,
            steps=self.steps,
        )

    def spent(self) -> Spent:
        """Everything so far, earlier attempts included."""
        busy_s = sum(now.busy_s + now.load_s - then.busy_s - then.load_s for then, now in self._pairs)
        return Spent(
            wall_s=self.wall_s,
            trainer_busy_s=self.before.trainer_busy_s + self._trainer_busy_s,
            generator_s=self.before.generator_s + self._own_wall_s * len(self._pairs),
            generator_busy_s=self.before.generator_busy_s + busy_s,
            max_lag=max(self.before.max_lag, self._max_lag),
            tokens_used=self.before.tokens_used + self._tokens_used,
            compute=self.compute(),
        )

    @property
    def _own_wall_s(self) -> float:
        """Of this attempt."""
        if self.started is None:
            return 0.0
        return (self.ended if self.ended is not None else self.clock()) - self.started

    @property
    def _pairs(self) -> list[tuple[Usage, Usage]]:
        return [(self._usage_at_start.get(name, Usage()), usage) for name, usage in self._usage.items()]


def _idle(busy_s: float, wall_s: float) -> float:
    return min(max(1.0 - busy_s / wall_s, 0.0), 1.0) if wall_s > 0 else 0.0
