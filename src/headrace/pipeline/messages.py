"""What roles say to each other. Small frozen records, pickled whole; arrays inside are numpy."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.records import Completion, GenerationRequest, PackedBatch, StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a generator has done since it started; all fields only grow. Seconds and tokens.

    ``wait_s`` is time without work, ``load_s`` time spent taking weights (probe included). Tokens are training's alone:
    those of evaluations (pinned weights) are left out, but the time they take counts as busy.
    """

    busy_s: float = 0.0
    wait_s: float = 0.0
    load_s: float = 0.0
    num_tokens: int = 0
    num_prefill_tokens: int = 0


# controller -> generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    requests: tuple[GenerationRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Copy the policy weights into the pinned set and say which version that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End the role; to either a generator or the trainer."""


# generator -> controller


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorReady:
    num_slots: int
    version: int
    weight_sets: tuple[str, ...]
    batch_invariant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    completions: tuple[Completion, ...]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """The generator samples from ``version`` from now on and reproduced its probe within ``probe_error`` (max abs)."""

    version: int
    pause_s: float
    probe_error: float
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    version: int


# controller -> trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStep:
    batch: PackedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Write the trainer's part of a checkpoint into an existing folder."""

    folder: str


# trainer -> controller


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerReady:
    version: int
    num_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """One step done and published. ``train_s`` and ``publish_s`` are the seconds each took."""

    result: StepResult
    train_s: float
    publish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """``error`` says why the trainer could not write its part ('' = written); the run goes on without it."""

    folder: str
    save_s: float
    error: str = ""
