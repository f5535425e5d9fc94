"""The records that flow through the pipeline. numpy only; frozen; a stage returns ``dataclasses.replace(record, ...)``.

A newcomer's example. The prompt ``12+30=`` (6 character tokens) is answered ``#42<eos>`` (4 tokens) by weights that
were replaced once while it was written::

    token_ids         1 2 + 3 0 =  #    4    2  eos      int32 [10]
    trainable         0 0 0 0 0 0  1    1    1    1      bool  [10]
    behaviour_logprob 0 0 0 0 0 0 -.9 -.1  -.2  -.01     f32   [10]
    policy_version   -1 ...    -1  7    7    8    8      int32 [10]

Index t always describes token t (nothing is shifted here); the oldest trainable token is of version 7, so trained by
step 9 the rollout has lag 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace.errors import RecordError

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]

FINISH_REASONS = ("stop", "length", "interrupted", "abort")
WeightSet = Literal["policy", "pinned"]

NO_VERSION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One row of a task, ready to be sampled from.

    ``index`` is the row's place in its source, ``epoch`` the pass over the source it was drawn in.
    ``row`` holds the data set's columns (the gold answer among them) as plain Python values.
    """

    prompt_id: str
    source: str
    text: str
    token_ids: IntArray  # [P]
    row: Mapping[str, Any]
    index: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One completion asked of an engine. The noise is a function of (seed, position in the sequence) alone."""

    request_id: str
    prefix_ids: IntArray  # [P], everything the model is conditioned on
    seed: int  # 0 <= seed < 2**63
    temperature: float
    max_tokens: int  # new tokens at most, > 0
    stop_token_ids: tuple[int, ...]
    weights: WeightSet = "policy"
    lineage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What an engine sampled for one request: n new tokens, the stop token included."""

    request_id: str
    token_ids: IntArray  # [n]
    logprob: FloatArray  # [n], of the distribution sampled from (after temperature)
    policy_version: IntArray  # [n], version of the weights that sampled the token
    finish_reason: str  # "stop" | "length" | "abort"
    lineage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verifier's word on one rollout.

    Either ``reward`` is a number, or ``error`` says why it could not be judged and ``reward`` is None. An answer that
    is wrong is judged: reward 0 (or -1) with a ``reason``.
    """

    reward: float | None
    passed: bool = False
    reason: str = ""
    error: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    answer: str | None = None
    time_s: float = 0.0

    @property
    def judged(self) -> bool:
        return self.reward is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One token sequence the policy took part in. Arrays have length L; index t always describes token t."""

    rollout_id: str
    group_id: str
    prompt_id: str
    source: str
    seed: int
    temperature: float
    token_ids: IntArray  # [L]
    trainable: BoolArray  # [L], True where the policy sampled (its end token too)
    behaviour_logprob: FloatArray  # [L], of the distribution really sampled from, 0 elsewhere
    policy_version: IntArray  # [L], version that sampled the token, -1 elsewhere
    finish_reason: str
    lineage: int = 0
    extras: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)  # first axis L
    verdict: Verdict | None = None
    advantage: FloatArray | None = None  # [L]

    @property
    def length(self) -> int:
        return len(self.token_ids)

    @property
    def num_trainable(self) -> int:
        return int(self.trainable.sum())

    @property
    def oldest_version(self) -> int:
        """Version of the oldest trainable token; -1 when nothing is trainable."""
        return int(self.policy_version[self.trainable].min()) if self.trainable.any() else NO_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rollouts of one prompt that are compared with each other.

    ``admission`` numbers the groups of a run in the order they were admitted, from 0, without gaps. ``signal`` is
    False for a group that trains nothing (zero variance, or fewer than two judged members).
    """

    group_id: str
    prompt: Prompt
    admission: int
    rollouts: tuple[Rollout, ...]
    signal: bool = True
    drop_reason: str = ""

    @property
    def oldest_version(self) -> int:
        """Version of the oldest trainable token of the group; the group's lag is measured from it."""
        versions = [r.oldest_version for r in self.rollouts if r.oldest_version != NO_VERSION]
        return min(versions) if versions else NO_VERSION

    @property
    def rewards(self) -> list[float | None]:
        return [r.verdict.reward if r.verdict is not None else None for r in self.rollouts]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """R rows of width W that go through the model together. A rollout lies in one row, whole.

    Rollouts of one group in the same row share a block of the tokens they begin with, which stands there once, before
    them: a prompt of 3 tokens (rollouts 0 and 1, 9 the number of the block) answered by 2 and by 3 tokens::

        token_ids      p  q  r  a  b  c  d  e
        position_ids   0  1  2  3  4  3  4  5
        segment        9  9  9  0  0  1  1  1
        prefix         9  9  9  9  9  9  9  9
        previous      -1  0  1  2  3  2  5  6

    A token sees what is not later in its row and of its own segment or of the segment ``prefix`` names. A row of
    padding only has loss weight 0 everywhere.
    """

    token_ids: IntArray  # [R, W]
    position_ids: IntArray  # [R, W], of the token in its rollout
    segment: IntArray  # [R, W], rollout of the step (index into PackedBatch.rewards); B + group for a block; -1 padding
    prefix: IntArray  # [R, W], segment of the block that comes before the token's own; its own where there is none
    previous: IntArray  # [R, W], column of the token that predicts it; -1 for the first of a rollout and on padding
    trainable: BoolArray  # [R, W]
    behaviour_logprob: FloatArray  # [R, W]
    policy_version: IntArray  # [R, W], -1 where not trainable
    advantage: FloatArray  # [R, W]
    loss_weight: npt.NDArray[np.float64]  # [R, W], sums over an update to its normalisation; 0 where masked


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """Everything the trainer needs for one step: ``updates`` optimiser steps of micro-batches each.

    Per-rollout arrays have length B (all rollouts of the step, in segment order). ``max_lag`` is the bound in force for
    this step; the trainer checks every trainable token against it again.
    """

    step: int  # the step that trains it = the trainer's version before it
    lineage: int
    max_lag: int
    updates: tuple[tuple[MicroBatch, ...], ...]
    rewards: FloatArray  # [B], NaN where not judged
    group_index: IntArray  # [B]
    temperature: npt.NDArray[np.float64]  # [B], that the rollout was sampled at
    seeds: npt.NDArray[np.int64]  # [B], of the rollout's noise: they name it, whatever it is packed with
    truncated: BoolArray  # [B], cut by the token limit
    num_tokens: int  # that go through the model in one epoch: a block once a row, padding not at all
    num_trainable: int

    @property
    def has_signal(self) -> bool:
        return any(bool((m.loss_weight != 0).any()) for update in self.updates for m in update)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Where one tensor lies in a flat weight buffer. ``dtype`` is torch's name without the prefix ('bfloat16')."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # bytes
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeScores:
    """Log-probabilities the trainer computed on exactly the weights it published, for a generator to reproduce."""

    token_ids: tuple[IntArray, ...]  # each [l]
    logprob: tuple[FloatArray, ...]  # each [l-1], of token t+1 given 0..t at temperature 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUpdate:
    """A published set of weights. ``kind`` 'adapter' carries only the adapter's tensors."""

    lineage: int
    version: int
    kind: Literal["full", "adapter"]
    specs: tuple[TensorSpec, ...]
    buffer: ByteArray  # flat bytes, specs index it
    probe: ProbeScores | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What the trainer answers to one step; ``version`` is the version after it.

    ``advantage`` is there when the trainer made the advantages itself: the mean over each rollout's trained tokens, NaN
    for a rollout none of whose tokens trained.
    """

    step: int
    version: int
    metrics: Mapping[str, float]
    advantage: FloatArray | None = None  # [B]


def check_rollout(rollout: Rollout) -> Rollout:
    """Return the rollout, or raise ``RecordError`` naming the field that breaks an invariant."""
    who = f"rollout {rollout.rollout_id}"
    length = len(rollout.token_ids)
    for name in ("trainable", "behaviour_logprob", "policy_version"):
        if len(getattr(rollout, name)) != length:
            raise RecordError(f"{who}: {name} has {len(getattr(rollout, name))} entries for {length} tokens")
    for name, value in rollout.extras.items():
        if len(value) != length:
            raise RecordError(f"{who}: extras[{name!r}] has {len(value)} entries for {length} tokens")
    if rollout.finish_reason not in FINISH_REASONS:
        raise RecordError(f"{who}: finish_reason {rollout.finish_reason!r} is none of {', '.join(FINISH_REASONS)}")
    mask, count = rollout.trainable, np.count_nonzero  # on short arrays an order of magnitude faster than any()
    if count(rollout.policy_version[mask] < 0):
        raise RecordError(f"{who}: a trainable token has no policy version")
    if count(rollout.policy_version[~mask] != NO_VERSION):
        raise RecordError(f"{who}: a token the policy did not sample carries a policy version")
    if count(rollout.behaviour_logprob[mask] > 1e-6):
        raise RecordError(f"{who}: a behaviour log-probability is above 0")
    if count(rollout.behaviour_logprob[~mask]):
        raise RecordError(f"{who}: a token the policy did not sample carries a behaviour log-probability")
    if rollout.advantage is not None and len(rollout.advantage) != length:
        raise RecordError(f"{who}: advantage has {len(rollout.advantage)} entries for {length} tokens")
    return rollout


def rollout_from_completions(
    prompt: Prompt, completion: Completion, *, rollout_id: str, group_id: str, seed: int, temperature: float
) -> Rollout:
    """Join a prompt and one completion of it into a rollout (the single-turn case). Text is never re-tokenised.

    Raises ``RecordError`` for a completion whose arrays differ in length; the values are for ``check_rollout``, which
    whoever takes rollouts from an environment calls.
    """
    p, n = len(prompt.token_ids), len(completion.token_ids)
    if not len(completion.logprob) == len(completion.policy_version) == n:
        raise RecordError(
            f"rollout {rollout_id}: {n} tokens came with {len(completion.logprob)} log-probabilities and "
            f"{len(completion.policy_version)} versions"
        )
    token_ids, trainable = np.empty(p + n, np.int32), np.zeros(p + n, np.bool_)
    logprob, version = np.zeros(p + n, np.float32), np.full(p + n, NO_VERSION, np.int32)
    token_ids[:p], token_ids[p:], trainable[p:] = prompt.token_ids, completion.token_ids, True
    logprob[p:], version[p:] = completion.logprob, completion.policy_version
    return Rollout(
        rollout_id=rollout_id,
        group_id=group_id,
        prompt_id=prompt.prompt_id,
        source=prompt.source,
        seed=seed,
        temperature=temperature,
        token_ids=token_ids,
        trainable=trainable,
        behaviour_logprob=logprob,
        policy_version=version,
        finish_reason=completion.finish_reason,
        lineage=completion.lineage,
    )


def completion_ids(rollout: Rollout) -> Sequence[int]:
    """Ids after the first token the policy sampled, that token included (tool tokens among them stay)."""
    if not np.count_nonzero(rollout.trainable):
        return []
    return rollout.token_ids[int(rollout.trainable.argmax()) :].tolist()
