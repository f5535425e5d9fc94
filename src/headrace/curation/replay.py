"""Finished groups that may train more than once: bounded reuse, never beyond the bound on lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.records import NO_VERSION, Group

Bound = Callable[[int], int]  # step -> max_lag in force at it


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A finished group and the number of steps that trained it."""

    group: Group
    uses: int


class ReplayStore:
    """Groups that trained in 1 to ``max_uses`` - 1 steps and may train again. ``max_uses`` 1: nothing is ever kept.

    A group is in the store once, so no step trains it twice. A group without signal, or without a trainable token, is
    not kept. ``entries`` and ``load`` are its state for a checkpoint. Raises ``ValueError`` for ``max_uses`` below 1.
    """

    def __init__(self, max_uses: int) -> None:
        if max_uses < 1:
            raise ValueError(f"max_uses {max_uses} is below 1")
        self.max_uses = max_uses
        self._entries: dict[int, Used] = {}  # by admission
        self._lent: dict[int, int] = {}  # uses of the groups that ``take`` gave out, by admission
        self.num_expired = 0

    def __len__(self) -> int:
        return len(self._entries)

    def trained(self, groups: Iterable[Group]) -> None:
        """A step trained these groups, new ones or ones that ``take`` gave out: those with uses left come (back) in.

        Give them as they were before advantages and shaping: those belong to one batch.
        """
        for group in groups:
            uses = self._lent.pop(group.admission, 0) + 1
            if uses < self.max_uses and group.signal and group.oldest_version != NO_VERSION:
                self._entries[group.admission] = Used(group=group, uses=uses)

    def take(self, count: int, *, step: int, max_lag: Bound) -> list[Group]:
        """Up to ``count`` groups for ``step``, those that expire first (ties: admitted first). They leave the store.

        Groups above the bound at ``step`` are thrown away first and counted in ``num_expired``.
        """
        self.expire(step=step, max_lag=max_lag)
        chosen = sorted(self._entries.values(), key=lambda e: (e.group.oldest_version, e.group.admission))[:count]
        for entry in chosen:
            del self._entries[entry.group.admission]
            self._lent[entry.group.admission] = entry.uses
        return [entry.group for entry in chosen]

    def give_back(self, groups: Iterable[Group]) -> None:
        """Groups that ``take`` gave out and that did not train after all."""
        for group in groups:
            self._entries[group.admission] = Used(group=group, uses=self._lent.pop(group.admission))

    def expire(self, *, step: int, max_lag: Bound) -> None:
        """Throw away groups whose oldest token may not train at ``step`` any more."""
        old = [a for a, e in self._entries.items() if step - e.group.oldest_version > max_lag(step)]
        for admission in old:
            del self._entries[admission]
        self.num_expired += len(old)

    def entries(self) -> tuple[Used, ...]:
        """Everything in the store by admission. Groups given out belong to a step under way and are not among it."""
        return tuple(self._entries[a] for a in sorted(self._entries))

    def lent(self) -> Mapping[int, int]:
        """Uses, by admission, of the groups given out; whoever checkpoints such a group saves them with it."""
        return dict(self._lent)

    def load(self, entries: Iterable[Used], lent: Mapping[int, int] | None = None) -> None:
        """Take up what ``entries`` and ``lent`` gave. More uses than now allowed: the group does not come in."""
        kept = [e for e in entries if e.uses < self.max_uses]
        self._entries = {e.group.admission: e for e in kept}
        self._lent = dict(lent or {})
