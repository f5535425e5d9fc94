"""Held-out evaluation of one pinned version, beside training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.pipeline.assembler import Assembler, Attempts, gather_or_cancel
from headrace.pipeline.generator_pool import GeneratorPool, GeneratorState
from headrace.protocols import PromptSource
from headrace.records import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """``groups`` hold the completions of one held-out prompt each, all of weights ``version``."""

    version: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """The same prompts with the same seeds every time, so that two evaluations differ by their weights alone."""

    assembler: Assembler
    pool: GeneratorPool
    source: PromptSource
    attempts: Attempts
    num_prompts: int
    samples_per_prompt: int
    timeout_s: float

    async def run(self) -> Evaluation:
        """Pin the newest weights on the generators that have them, and sample every held-out prompt from those."""
        states, version = await self._pin()
        prompts = [self.source.at(i) for i in range(min(self.num_prompts, len(self.source)))]
        groups = await gather_or_cancel(
            [
                self.assembler.group(
                    prompt,
                    states[i % len(states)],
                    self.attempts,
                    admission=i,
                    position=i,
                    size=self.samples_per_prompt,
                )
                for i, prompt in enumerate(prompts)
            ]
        )
        self._check(groups, version)
        return Evaluation(version=version, groups=tuple(groups))

    async def _pin(self) -> tuple[list[GeneratorState], int]:
        able = [s for s in self.pool.states.values() if "pinned" in s.weight_sets]
        if not able:
            raise ConfigError("no generator holds a second set of weights, so evaluation cannot run beside training")
        versions = await gather_or_cancel([self.pool.pin(s, self.timeout_s) for s in able])
        newest = max(versions)
        return [s for s, v in zip(able, versions, strict=True) if v == newest], newest

    @staticmethod
    def _check(groups: Sequence[Group], version: int) -> None:
        for group in groups:
            for rollout in group.rollouts:
                if (rollout.policy_version[rollout.trainable] != version).any():
                    raise AssertionError(f"evaluation of version {version}: {rollout.rollout_id} mixes versions")
