"""What a controller is made of, and what it tells a recorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.config.sections import Recipe
from headrace.curation.curated_source import CuratedSource
from headrace.pipeline.assembler import Assembler, Attempts
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.checkpoint import CheckpointStore, ControllerState
from headrace.pipeline.evaluation import Evaluation, Evaluator
from headrace.pipeline.gate import Gate
from headrace.pipeline.generator_pool import GeneratorPool, Link
from headrace.pipeline.ledger import LagSchedule, Outstanding
from headrace.pipeline.messages import Stepped
from headrace.pipeline.signal import Changed
from headrace.pipeline.totals import Spent
from headrace.protocols import PromptSource
from headrace.records import Group, PackedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One step, as the recorder sees it.

    ``groups`` have the verdicts they got and the advantages they trained with; shaped rewards are the batch's.
    ``uses`` says of each group in how many steps it had trained before. ``curation`` are figures of the prompt set.
    """

    groups: tuple[Group, ...]
    batch: PackedBatch
    stepped: Stepped
    uses: tuple[int, ...] = ()
    curation: Mapping[str, float] = field(default_factory=dict)


class Recorder(Protocol):
    """Writes down what happens. May raise ``VerifierBroken`` to end the run."""

    def phase(self, name: str) -> None: ...

    def first_admission(self, pool: GeneratorPool) -> None: ...

    def trained(self, trained: Trained, pool: GeneratorPool) -> None: ...

    def last_update(self, pool: GeneratorPool) -> None: ...

    def dropped(self, entries: tuple[Outstanding, ...], *, step: int, reason: str) -> None: ...

    def evaluated(self, evaluation: Evaluation, pool: GeneratorPool) -> None: ...

    def checkpointed(self, version: int, error: str) -> None: ...

    def spent(self, pool: GeneratorPool) -> Spent:
        """What training has cost so far, for a checkpoint to keep."""
        ...


@dataclass(slots=True, kw_only=True)
class Parts:
    """What a controller is made of; ``build.py`` and the simulation fill it."""

    recipe: Recipe
    trainer: Link
    pool: GeneratorPool
    changed: Changed
    assembler: Assembler
    train_source: PromptSource
    evaluator: Evaluator | None
    attempts: Attempts
    builder: BatchBuilder
    recorder: Recorder
    checkpoints: CheckpointStore | None
    max_lag: LagSchedule
    temperature: Callable[[int], float]  # of a training group, by the step it is admitted for
    clock: Callable[[], float]
    resume: ControllerState | None = None
    gate: Gate | None = None  # None = the one that keeps the bound
    curated: CuratedSource | None = None  # the train_source once more, when its prompts retire
