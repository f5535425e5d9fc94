"""Everything a simulated run did, kept as a recorder sees it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from headrace.pipeline.evaluation import Evaluation
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.pipeline.parts import Trained
from headrace.pipeline.signal import Changed
from headrace.pipeline.totals import Spent
from headrace.tracking.eval_log import Compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One group given up."""

    entry: Outstanding
    step: int
    reason: str


@dataclass(slots=True)
class History:
    """A ``Recorder``. Versions and times in the order they came."""

    phases: list[str] = field(default_factory=list)
    steps: list[Trained] = field(default_factory=list)
    step_times: list[float] = field(default_factory=list)
    drops: list[Dropped] = field(default_factory=list)
    evaluations: list[tuple[float, Evaluation]] = field(default_factory=list)
    checkpoints: list[tuple[int, str]] = field(default_factory=list)
    stepped_before: int = 0  # steps of the attempts before
    num_first_admissions: int = 0
    most_outstanding: int = 0
    most_ready: int = 0

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def first_admission(self, pool: GeneratorPool) -> None:
        self.num_first_admissions += 1

    def trained(self, trained: Trained, pool: GeneratorPool) -> None:
        self.steps.append(trained)
        self.step_times.append(_now())

    def last_update(self, pool: GeneratorPool) -> None:
        pass

    def dropped(self, entries: tuple[Outstanding, ...], *, step: int, reason: str) -> None:
        self.drops += [Dropped(entry=e, step=step, reason=reason) for e in entries]

    def evaluated(self, evaluation: Evaluation, pool: GeneratorPool) -> None:
        self.evaluations.append((_now(), evaluation))

    def checkpointed(self, version: int, error: str) -> None:
        self.checkpoints.append((version, error))

    def spent(self, pool: GeneratorPool) -> Spent:
        return Spent(compute=Compute(steps=self.stepped_before + len(self.steps)))

    def see(self, ledger: Ledger) -> None:
        """Called at every change: how full the buffers are."""
        self.most_outstanding = max(self.most_outstanding, len(ledger))
        self.most_ready = max(self.most_ready, ledger.num_ready)

    @property
    def lags(self) -> list[int]:
        """Lag of every group trained, from its oldest token."""
        return [t.batch.step - g.oldest_version for t in self.steps for g in t.groups]

    @property
    def trained_admissions(self) -> list[int]:
        return [g.admission for t in self.steps for g in t.groups]


class WatchedChanges(Changed):
    """Lets the history look at the ledger whenever something changes."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self.ledger: Ledger | None = None

    def notify(self) -> None:
        if self.ledger is not None:
            self._history.see(self.ledger)
        super().notify()


def _now() -> float:
    return asyncio.get_running_loop().time()
