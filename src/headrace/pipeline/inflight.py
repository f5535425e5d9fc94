"""Steps the trainer has been given and has not answered, and what was in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.pipeline.messages import Stepped
from headrace.pipeline.parts import Trained
from headrace.records import Group, PackedBatch

PREFETCH = 2  # the one the trainer runs and the one it takes next


class InflightSteps:
    """At most ``PREFETCH`` steps."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[tuple[Group, ...], PackedBatch, tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def full(self) -> bool:
        return len(self._steps) >= PREFETCH

    @property
    def oldest(self) -> int:
        return min(self._steps)

    def add(self, groups: Sequence[Group], batch: PackedBatch, uses: Sequence[int]) -> None:
        """``uses`` says of each group in how many steps it trained before."""
        self._steps[batch.step] = (tuple(groups), batch, tuple(uses))

    def answered(self, stepped: Stepped, curation: Mapping[str, float]) -> Trained:
        """The trainer has done a step; ``KeyError`` for one it was not given."""
        groups, batch, uses = self._steps.pop(stepped.result.step)
        return Trained(groups=groups, batch=batch, stepped=stepped, uses=uses, curation=curation)
