"""From an admitted prompt to a judged group: attempts run side by side, each is judged as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from headrace.pipeline.generator_pool import GeneratorPool, GeneratorState, PooledSampler
from headrace.pipeline.seeds import derive_seed
from headrace.protocols import Environment
from headrace.records import Group, Prompt, Rollout, Verdict, WeightSet, check_rollout, completion_ids

Judge = Callable[[str, Mapping[str, Any]], Awaitable[Verdict]]
Decode = Callable[[Sequence[int]], str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """How attempts are sampled, for training or for an evaluation; training groups may have a temperature each."""

    temperature: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    weights: WeightSet
    seed: int  # the run's
    purpose: str  # enters the seeds: 'train' or 'eval'
    lineage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembler:
    """Runs the environment for every member of a group and has the verifier judge what comes back."""

    environment: Environment
    judge: Judge
    decode: Decode
    pool: GeneratorPool

    async def group(
        self, prompt: Prompt, state: GeneratorState, how: Attempts, *, admission: int, position: int, size: int
    ) -> Group:
        """``size`` attempts at a prompt on one generator. Seeds depend on (seed, purpose, position, member) alone."""
        group_id = group_name(how.purpose, admission)
        members = [self._attempt(prompt, state, how, group_id, position, m) for m in range(size)]
        rollouts = await gather_or_cancel(members)
        return Group(
            group_id=group_id,
            prompt=prompt,
            admission=admission,
            rollouts=tuple(r for attempt in rollouts for r in attempt),
        )

    async def _attempt(
        self, prompt: Prompt, state: GeneratorState, how: Attempts, group_id: str, position: int, member: int
    ) -> list[Rollout]:
        seed = derive_seed(how.seed, how.purpose, position, member)
        name = attempt_name(group_id, member)
        sampler = PooledSampler(
            self.pool,
            state,
            request_id=name,
            seed=seed,
            temperature=how.temperature,
            max_tokens=how.max_tokens,
            stop_token_ids=how.stop_token_ids,
            weights=how.weights,
            lineage=how.lineage,
        )
        rollouts = await self.environment.run(prompt, sampler, group_id=group_id, seed=seed)
        self.pool.release(state, [name])  # its slot is free while the verifier works
        for rollout in rollouts:
            check_rollout(rollout)
        verdict = await self._verdict(rollouts, prompt)
        return [replace(r, verdict=verdict, rollout_id=name + (f".{i}" if i else "")) for i, r in enumerate(rollouts)]

    async def _verdict(self, rollouts: Sequence[Rollout], prompt: Prompt) -> Verdict:
        """One verdict for the attempt, on its last rollout's text. Unusable numbers are an error, never a score."""
        last = rollouts[-1]
        if not np.isfinite(last.behaviour_logprob[last.trainable]).all():
            return Verdict(reward=None, error="the engine returned a non-finite log-probability")
        if last.finish_reason == "abort":
            return Verdict(reward=None, error="the completion was aborted")
        verdict = await self.judge(self.decode(completion_ids(last)), prompt.row)
        if verdict.reward is not None and not np.isfinite(verdict.reward):
            return replace(verdict, reward=None, error=f"the verifier returned the reward {verdict.reward}")
        return verdict


def group_name(purpose: str, admission: int) -> str:
    return f"{purpose}-{admission}"


def attempt_name(group_id: str, member: int) -> str:
    """Names an attempt's requests, rollouts and place in a generator."""
    return f"{group_id}-{member}"


async def gather_or_cancel(members: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Gather; when one fails or the group is cancelled, the others are cancelled too (their slots are freed)."""
    tasks = [asyncio.ensure_future(m) for m in members]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
