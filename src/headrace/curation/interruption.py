"""Forced interruption of over-long thinking (ScaleRL, arXiv 2510.13786): pure part.

A completion thinks for a budget drawn anew for every rollout. If it has not closed its thoughts by then, a text is put
in that closes them, and the answer follows. What is put in was not sampled: it conditions the answer, and is masked out
of the loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.records import NO_VERSION, Completion, IntArray, Prompt, Rollout, check_rollout

Move = Literal["end", "interrupt", "continue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """``low`` to ``high``: range of the thinking budget in tokens, both ends possible. ``injected_ids``: what is put
    in, encoded once. ``closing_ids``: how a completion closes its thoughts by itself; empty: whatever runs into its
    budget is interrupted. ``answer_tokens``: the budget after the injection. Raises ``ValueError`` for an empty range,
    nothing to put in, or no room for an answer."""

    low: int
    high: int
    injected_ids: tuple[int, ...]
    closing_ids: tuple[int, ...]
    answer_tokens: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"a thinking budget of {self.low} to {self.high} tokens is none")
        if not self.injected_ids or self.answer_tokens < 1:
            raise ValueError("an interruption needs a text to put in, and room for an answer")

    def budget(self, seed: int) -> int:
        """Thinking tokens of the rollout with this seed, evenly distributed over seeds; a pure function of it."""
        digest = hashlib.blake2b(f"thinking/{seed}".encode(), digest_size=8).digest()
        return self.low + int.from_bytes(digest, "little") * (self.high - self.low + 1) // 2**64

    @property
    def max_tokens(self) -> int:
        """Most tokens a completion can get, injected ones included."""
        return self.high + len(self.injected_ids) + self.answer_tokens

    def next_move(self, thinking: Completion) -> Move:
        """What follows a first part that was sampled with its budget as limit.

        'end': it stopped by itself (or was aborted). 'continue': it ran into the budget while already answering; the
        answer goes on with nothing put in. 'interrupt': it ran into the budget while thinking.
        """
        if thinking.finish_reason != "length":
            return "end"
        answering = bool(self.closing_ids) and _contains(thinking.token_ids.tolist(), self.closing_ids)
        return "continue" if answering else "interrupt"


def joined_rollout(
    prompt: Prompt,
    thinking: Completion,
    injected_ids: Sequence[int],
    answer: Completion,
    *,
    rollout_id: str,
    group_id: str,
    seed: int,
    temperature: float,
) -> Rollout:
    """Prompt, first part, what was put in (empty for 'continue') and second part as one rollout.

    Injected tokens are not trainable and carry neither version nor log-probability. ``finish_reason`` is the second
    part's; one that stopped after an injection is 'interrupted'. Raises ``RecordError`` through ``check_rollout``.
    """
    put_in = np.asarray(injected_ids, dtype=np.int32)
    stopped = answer.finish_reason == "stop" and len(put_in) > 0
    p, t, n = len(prompt.token_ids), len(thinking.token_ids), len(put_in)
    trainable = np.ones(p + t + n + len(answer.token_ids), dtype=np.bool_)
    trainable[:p] = trainable[p + t : p + t + n] = False
    logprob = np.zeros(len(trainable), dtype=np.float32)
    version = np.full(len(trainable), NO_VERSION, dtype=np.int32)
    logprob[trainable] = np.concatenate([thinking.logprob, answer.logprob])
    version[trainable] = np.concatenate([thinking.policy_version, answer.policy_version])
    return check_rollout(
        Rollout(
            rollout_id=rollout_id,
            group_id=group_id,
            prompt_id=prompt.prompt_id,
            source=prompt.source,
            seed=seed,
            temperature=temperature,
            token_ids=np.concatenate([prompt.token_ids, thinking.token_ids, put_in, answer.token_ids]).astype(np.int32),
            trainable=trainable,
            behaviour_logprob=logprob,
            policy_version=version,
            finish_reason="interrupted" if stopped else answer.finish_reason,
            lineage=answer.lineage,
        )
    )


def second_prefix(prompt: Prompt, thinking: Completion, injected_ids: Sequence[int]) -> IntArray:
    """What the second part is sampled from: prompt, first part and what was put in."""
    put_in = np.asarray(injected_ids, dtype=np.int32)
    return np.concatenate([prompt.token_ids, thinking.token_ids, put_in]).astype(np.int32)


def _contains(tokens: Sequence[int], wanted: Sequence[int]) -> bool:
    size = len(wanted)
    return any(list(tokens[i : i + size]) == list(wanted) for i in range(len(tokens) - size + 1))
