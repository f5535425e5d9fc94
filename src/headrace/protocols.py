"""The plug-in points. Each has one contract suite under ``tests/contract`` that runs over every implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from headrace.records import (
    Completion,
    FloatArray,
    GenerationRequest,
    IntArray,
    PackedBatch,
    Prompt,
    Rollout,
    StepResult,
    Verdict,
    WeightSet,
    WeightUpdate,
)


@runtime_checkable
class Engine(Protocol):
    """Samples completions. Owned by one generator process and driven by one thread."""

    name: str
    batch_invariant: bool  # a sample does not depend on who shares its batch
    weight_sets: tuple[str, ...]  # ("policy", "pinned") or ("policy",)
    num_slots: int  # sequences that decode at the same time

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request. Raises ``DataError`` when prefix + max_tokens does not fit the context."""

    def cancel(self, request_id: str) -> None:
        """Forget a queued or running request; its slot is free afterwards. Unknown ids are ignored."""

    def step(self) -> list[Completion]:
        """Fill free slots, decode one token for every running sequence, return the sequences that ended."""

    @property
    def num_active(self) -> int: ...

    @property
    def num_waiting(self) -> int: ...

    def load_weights(self, update: WeightUpdate) -> None:
        """Replace the policy weights in place between two decode steps; running sequences go on.

        Tokens sampled from now on carry ``update.version``. A running sequence keeps its KV cache.
        """

    def pin(self) -> int:
        """Copy the policy weights into the pinned set; return the version pinned. Pinned sequences must have ended."""

    def score(self, sequences: Sequence[IntArray], *, weights: WeightSet = "policy") -> list[FloatArray]:
        """Log-probabilities [l-1] of tokens 1.. given what stands before, temperature 1, on a fresh cache."""

    def reset(self, lineage: int) -> None:
        """Drop every sequence and cache of an older lineage."""


class Trainer(Protocol):
    """Owns model, optimiser and objective. ``version`` = steps completed."""

    version: int

    def step(self, batch: PackedBatch) -> StepResult:
        """prepare -> updates; a batch without signal makes no update and still advances the version."""

    def publishable(self) -> WeightUpdate:
        """The current weights as they are to be sampled from (rounded to the published dtype), with probe scores."""

    def save(self, folder: str) -> None:
        """Write the model in Hugging Face format and the optimiser, schedule and counters into an existing folder."""

    def load(self, folder: str) -> None:
        """Take up what ``save`` wrote, moments and counters included."""


class Sampler(Protocol):
    """What an environment samples with: the policy, with seeds, temperature, budget and cancellation looked after.

    An attempt may call ``generate`` several times, one call after the other. The noise depends on the attempt's seed
    and the position in the sequence, so a later call over a longer prefix goes on in the same stream.
    """

    @property
    def temperature(self) -> float:
        """What it samples at; rollouts record it."""

    async def generate(
        self, prefix_ids: IntArray, *, max_tokens: int | None = None, stop_token_ids: Sequence[int] | None = None
    ) -> Completion:
        """Continue ``prefix_ids`` by at most ``max_tokens``, within what is left of the attempt's budget.

        Token ids, versions and log-probabilities come back as they were sampled.
        """


class Environment(Protocol):
    """One attempt at a prompt. Single-turn is the trivial one; tool use calls ``generate`` several times."""

    async def run(self, prompt: Prompt, sampler: Sampler, *, group_id: str, seed: int) -> list[Rollout]:
        """Return the attempt's rollouts (usually one; several share the attempt's verdict)."""


class PromptSource(Protocol):
    """Rows in a seeded order, epoch after epoch, by position: ``at(i)`` is a pure function of i."""

    name: str

    def __len__(self) -> int: ...

    def at(self, position: int) -> Prompt:
        """The prompt at a position of the endless stream (position // len = epoch)."""


class Verifier(Protocol):
    """Judges one completion text. Runs inside a verifier process only; may raise: the pool turns that into an error."""

    name: str

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict: ...


class Tracker(Protocol):
    """Receives metrics; never raises into the run."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Transport(Protocol):
    """A duplex, ordered message channel between two roles."""

    def send(self, message: Any) -> None: ...

    def recv(self, timeout_s: float | None = None) -> Any: ...

    def poll(self, timeout_s: float = 0.0) -> bool: ...

    def close(self) -> None: ...


class WeightWriter(Protocol):
    """The trainer's end of a weight transport."""

    def publish(self, update: WeightUpdate) -> None: ...


class WeightReader(Protocol):
    """A generator's end: the newest complete version, or None when there is nothing newer than version ``have``."""

    def newest(self, have: int, lineage: int = 0) -> WeightUpdate | None: ...


class Clock(Protocol):
    """Time as the pipeline sees it, so that the simulation can run on a fake one."""

    def now(self) -> float: ...


def as_int32(values: Sequence[int] | Iterator[int]) -> IntArray:
    return np.asarray(list(values), dtype=np.int32)
