"""A prompt source that leaves retired prompts out: the pass-rate memory and the active set around any source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from headrace.config.algorithm import PassRateSection
from headrace.curation.active_set import ActiveSet
from headrace.curation.pass_rate import PassRateMemory, PassRateRule, least_count, outcomes
from headrace.errors import DataError, RecordError
from headrace.records import Group, Prompt

ENDLESS = 1 << 32
"""From this many rows on a source has no reserve: it never comes round, and its next rows take the places anyway."""

MOST_PASSED_OVER = 20_000
"""Rows of retired problems in a row after which an endless source counts as used up."""


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
        for _ in range(MOST_PASSED_OVER):
            prompt = self._source.at(self.active.next_position())
            rows = self._rows.setdefault(prompt.prompt_id, [])
            known = prompt.index in rows
            if not known:
                rows.append(prompt.index)
            if known or not self.memory.is_retired(prompt.prompt_id):
                self._next += 1
                return prompt
            self.active.retire(prompt.index, now=True)  # a row not seen before, of a problem that retired
        raise DataError(
            f"{MOST_PASSED_OVER} rows of '{self.name}' in a row are of problems that retired because they are solved "
            "nearly always. Use harder prompts, or a higher pass-rate threshold."
        )

    def finished(self, group: Group) -> None:
        """A training group was judged. Call before the zero-variance filter; its verdicts must be unshaped."""
        results = outcomes(group, self._pass_threshold)
        self._retire(self.memory.record(group.admission, group.prompt.prompt_id, results))

    def gave_up(self, admission: int) -> None:
        """A group was dropped before it was finished."""
        self._retire(self.memory.skip(admission))

    def metrics(self) -> dict[str, float]:
        """Prompts by state; names as in ``metrics/names.py``. Of an endless source only those that retired."""
        retired = {"curation/num_retired": float(self.active.num_retired)}
        if len(self) >= ENDLESS:
            return retired
        return {
            "curation/num_active": float(self.active.size),
            **retired,
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

    def begin_at(self, position: int, admission: int) -> None:
        """Take over from a plain source: so many prompts were drawn, so many groups admitted, none remembered."""
        self._next = position
        self.active.load({**self.active.to_dict(), "cursor": position})
        self.memory = PassRateMemory.from_dict(
            self.memory.rule, {"histories": {}, "retired": [], "next": admission, "early": []}
        )

    def _retire(self, keys: Iterable[str]) -> None:
        for key in keys:
            for row in self._rows.get(key, ()):
                self.active.retire(row)


def curated_source(
    source: Source, part: PassRateSection, *, group_size: int, groups_per_step: int, seed: int
) -> CuratedSource:
    """The source a recipe asks for: ``part`` says when prompts retire; ``seed`` chooses and orders the reserve."""
    count = least_count(group_size, part.window) if part.min_count is None else part.min_count
    rule = PassRateRule(min_count=count, threshold=part.threshold, window=part.window, patience=part.patience)
    active = ActiveSet(
        len(source),
        source.index,
        reserve_frac=part.reserve_frac if len(source) < ENDLESS else 0.0,
        seed=seed,
        minimum=groups_per_step,
        effective=part.effective,
    )
    return CuratedSource(source, PassRateMemory(rule), active, pass_threshold=part.pass_threshold)
