"""What is simulated. An outcome is a pure function of the scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.config.algorithm import AlgorithmSection
from headrace.config.sections import (
    AsyncSection,
    BatchSection,
    CheckpointSection,
    EvalSection,
    Recipe,
    RunSection,
    SamplingSection,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Sizes and rates as in a recipe; delays in seconds of virtual time, drawn from [0.5, 1.5] times the value.

    Completion lengths are lognormal: ``length_median`` tokens, ``length_sigma`` the spread of the logarithm (p99 / p50
    is exp(2.33 sigma): 8 at 0.9). Generator i takes weights ``take_s[i]`` after they were published, the newest there
    are by then, so slow takers skip versions; the last entry goes for all further generators.
    """

    seed: int = 0
    steps: int = 8
    groups_per_step: int = 3
    group_size: int = 2
    max_lag: int = 2
    falls: tuple[tuple[int, int], ...] = ()  # (step, bound from there on): the lag schedule's later stages
    at_bound: str = "wait"
    zero_variance: str = "keep"
    max_ready_batches: int = 2
    max_uses: int = 1
    timeout_s: float = 60.0

    num_generators: int = 1
    num_slots: int = 8
    token_s: float = 0.05
    length_median: float = 8.0
    length_sigma: float = 0.9
    max_tokens: int = 100
    stall_prob: float = 0.0  # of a completion: one of its tokens takes stall_s longer
    stall_s: float = 5.0
    take_s: tuple[float, ...] = (0.05,)
    link_s: float = 0.002

    train_s: float = 1.0
    publish_s: float = 0.05

    verify_s: float = 0.05
    verifier_error: float = 0.0  # share of verdicts that are errors
    solvable: float = 1.0  # share of prompts that are solved sometimes; the others never
    easy: float = 0.0  # share of prompts that are solved always
    num_prompts: int = 50
    retire_after: int = 0  # completions after which a prompt that was solved each time retires; 0 = none retires
    retire_effective: str = "now"
    reserve_frac: float = 0.0

    eval_every: int = 0
    eval_prompts: int = 4
    eval_every_s: float = 0.0
    checkpoint_every: int = 0
    checkpoint_every_s: float = 0.0
    keep: int = 2

    # Faults. Versions and times refer to the run at hand.
    deaf_from: int | None = None  # generator 0 takes no version from this one on
    generator_dies_at_s: float | None = None
    trainer_dies_at_s: float | None = None
    lost_completion: int | None = None  # the n-th request of the run is never answered
    save_fails_at: tuple[int, ...] = ()  # versions at which the trainer's part of the checkpoint finds no space
    trainer_hangs_at: int | None = None  # a step that never ends
    stop_at_s: float | None = None  # a stop is requested
    limit_s: float = 20_000.0  # virtual time after which the run counts as hung

    @property
    def outstanding_bound(self) -> int:
        """More groups than this are never outstanding.

        One step more than the bound on lag says: a generator may confirm a version before the trainer's own message
        about it has arrived, and the gate counts from what was confirmed.
        """
        return (self.max_lag + 2) * self.groups_per_step

    @property
    def evaluates(self) -> bool:
        return self.eval_every > 0 or self.eval_every_s > 0

    def lag_schedule(self) -> Callable[[int], int]:
        """The bound by step: ``max_lag``, then what ``falls`` says."""

        def bound(step: int) -> int:
            return min([self.max_lag, *(lag for start, lag in self.falls if step >= start)])

        return bound

    def take_delay(self, generator: int) -> float:
        return self.take_s[min(generator, len(self.take_s) - 1)]

    def recipe(self) -> Recipe:
        """The same, as the controller reads it."""
        batch = BatchSection(groups_per_step=self.groups_per_step, group_size=self.group_size)
        asynchrony = AsyncSection.model_validate(
            {
                "max_lag": self.max_lag,
                "at_bound": self.at_bound,
                "max_ready_batches": self.max_ready_batches,
                "max_uses": self.max_uses,
            }
        )
        algorithm = {"zero_variance": self.zero_variance, "pass_rate": self._retiring()}
        return Recipe.model_validate(
            {
                "run": RunSection(steps=self.steps, seed=self.seed, timeout_s=self.timeout_s),
                "sampling": SamplingSection(max_completion_tokens=self.max_tokens),
                "batch": batch,
                "async": asynchrony,
                "algorithm": AlgorithmSection.model_validate(algorithm),
                "eval": EvalSection(
                    every_steps=self.eval_every, every_minutes=self.eval_every_s / 60, num_prompts=self.eval_prompts
                ),
                "checkpoint": CheckpointSection(
                    every_steps=self.checkpoint_every, every_minutes=self.checkpoint_every_s / 60, keep=self.keep
                ),
            }
        )

    def _retiring(self) -> dict[str, Any] | None:
        if not self.retire_after:
            return None
        return {
            "threshold": 1.0,
            "min_count": self.retire_after,
            "effective": self.retire_effective,
            "reserve_frac": self.reserve_frac,
        }
