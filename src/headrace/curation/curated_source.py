"""A prompt source that leaves retired prompts out: the pass-rate memory and the active set around any source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from headrace.curation.active_set import ActiveSet
from headrace.curation.pass_rate import PassRateMemory, outcomes
from headrace.errors import RecordError
from headrace.records import Group, Prompt


class Source(Protocol):
    """Prompts by position, epoch after epoch; ``index(position)`` is the number of the row alone."""

    name: str

    def __len__(self) -> int: ...

    def index(self, position: int) -> int: ...

    def at(self, position: int) -> Prompt: ...


class CuratedSource:
    """Stands where its ``source`` stood. ``at(i)`` must be asked for i = 0, 1, 2, ... in order, once each: what comes
    depends on what retired until then, so whoever samples a prompt again keeps the prompt.

    Tell it of every admitted group exactly one of two things: ``finished`` (before any filter) or ``gave_up``. Groups
    in flight when their prompt retires still train.
    """

    def __init__(
        self, source: Source, memory: PassRateMemory, active: ActiveSet, *, pass_threshold: float | None = None
    ) -> None:
        self.name = source.name
        self.memory, self.active = memory, active
        self._source, self._pass_threshold = source, pass_threshold
        self._next = 0
        self._rows: dict[str, list[int]] = {}  # rows that were drawn, by key: a source may repeat a problem

    def __len__(self) -> int:
        return len(self._source)

    def at(self, position: int) -> Prompt:
        """The next prompt of the set. Raises ``RecordError`` out of order, ``DataError`` when too few are left."""
        if position != self._next:
            raise RecordError(f"prompt {position} was asked for, and {self._next} is next; a curated order has no past")
        while True:
            prompt = self._source.at(self.active.next_position())
            rows = self._rows.setdefault(prompt.prompt_id, [])
            if prompt.index in rows:
                break
            rows.append(prompt.index)
            if not self.memory.is_retired(prompt.prompt_id):
                break
            self.active.retire(prompt.index, now=True)  # a row not seen before, of a problem that retired
        self._next += 1
        return prompt

    def finished(self, group: Group) -> None:
        """A training group was judged. Call before the zero-variance filter; its verdicts must be unshaped."""
        results = outcomes(group, self._pass_threshold)
        self._retire(self.memory.record(group.admission, group.prompt.prompt_id, results))

    def gave_up(self, admission: int) -> None:
        """A group was dropped before it was finished."""
        self._retire(self.memory.skip(admission))

    def metrics(self) -> dict[str, float]:
        """Prompts by state; names as in ``metrics/names.py``."""
        return {
            "curation/num_active": float(self.active.size),
            "curation/num_retired": float(self.active.num_retired),
            "curation/num_reserve": float(self.active.num_reserve),
            "curation/num_vacant": float(self.active.num_vacant),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain state for a checkpoint."""
        return {
            "next": self._next,
            "rows": {key: list(rows) for key, rows in self._rows.items()},
            "active": self.active.to_dict(),
            "memory": self.memory.to_dict(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up what ``to_dict`` wrote. Raises ``RecordError`` when it is of another source or reserve."""
        self._next = state["next"]
        self._rows = {key: list(rows) for key, rows in state["rows"].items()}
        self.active.load(state["active"])
        self.memory = PassRateMemory.from_dict(self.memory.rule, state["memory"])

    def _retire(self, keys: Iterable[str]) -> None:
        for key in keys:
            for row in self._rows.get(key, ()):
                self.active.retire(row)
