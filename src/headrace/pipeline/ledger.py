"""The set of outstanding groups: admitted, and neither trained nor dropped. Every count is derived from this set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from headrace.records import NO_VERSION, Group, Prompt

LagSchedule = Callable[[int], int]  # step -> max_lag in force at it


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """One admitted group.

    ``admitted_version`` is what its generator had acknowledged when it was admitted: no token of it can be older.
    ``group_version`` is the version of the oldest token it got, known once it is finished (and it has any).
    ``temperature`` is that of the step it was admitted for; it keeps it when it is sampled again after a resume.
    ``uses`` counts the steps that trained it. ``step`` is the step it was cut for, None while it waits.
    """

    admission: int
    group_id: str
    prompt: Prompt
    position: int  # in the prompt source
    generator: str
    admitted_version: int
    temperature: float = 1.0
    group: Group | None = None
    group_version: int = NO_VERSION  # kept here: deadlines are looked at far more often than groups finish
    uses: int = 0
    step: int | None = None

    @property
    def finished(self) -> bool:
        return self.group is not None

    @property
    def oldest_version(self) -> int:
        """Version of the oldest token it has, or may still get."""
        return self.group_version if self.group_version != NO_VERSION else self.admitted_version


def last_step_for(version: int, max_lag: LagSchedule) -> int:
    """The deadline: the last step at which tokens of ``version`` may be trained, ``step - version <= max_lag(step)``.

    Schedules never rise, so the condition holds for every step up to the deadline and for none after it.
    """
    step = version
    while step + 1 - version <= max_lag(step + 1):
        step += 1
    return step


class Ledger:
    """Outstanding groups of a run, and what follows from them.

    ``trainer_version`` is the number of steps completed. Groups stay in the set while their step runs.
    """

    def __init__(self, *, groups_per_step: int, max_lag: LagSchedule, trainer_version: int = 0) -> None:
        self.groups_per_step = groups_per_step
        self.max_lag = max_lag
        self.trainer_version = trainer_version
        self._entries: dict[int, Outstanding] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[Outstanding]:
        """All outstanding groups by admission."""
        return [self._entries[k] for k in sorted(self._entries)]

    def waiting(self) -> list[Outstanding]:
        """Outstanding groups that no step has been cut for, by admission."""
        return [e for e in self.entries() if e.step is None]

    def get(self, admission: int) -> Outstanding | None:
        return self._entries.get(admission)

    @property
    def num_ready(self) -> int:
        """Finished groups that wait for a step."""
        return sum(1 for e in self._entries.values() if e.finished and e.step is None)

    @property
    def next_step(self) -> int:
        """The step the next batch is cut for: completed steps plus the steps that were cut and still run."""
        return self.trainer_version + len({e.step for e in self._entries.values() if e.step is not None})

    @property
    def target_step(self) -> int:
        """The step in which a group admitted now trains at the latest, as things stand."""
        return self.trainer_version + len(self._entries) // self.groups_per_step

    def deadline(self, entry: Outstanding) -> int:
        return last_step_for(entry.oldest_version, self.max_lag)

    def by_deadline(self, entries: Iterable[Outstanding]) -> list[Outstanding]:
        return sorted(entries, key=lambda e: (self.deadline(e), e.admission))

    def overdue(self, entries: Iterable[Outstanding], first_step: int) -> list[Outstanding]:
        """Groups that miss their deadline if ``entries`` train in deadline order from ``first_step`` on."""
        ordered = self.by_deadline(entries)
        return [e for i, e in enumerate(ordered) if self.deadline(e) < first_step + i // self.groups_per_step]

    def admit(self, entry: Outstanding) -> None:
        if entry.admission in self._entries:
            raise ValueError(f"group {entry.admission} was admitted twice")
        self._entries[entry.admission] = entry

    def finish(self, admission: int, group: Group) -> None:
        """Record a finished group. A group that was dropped meanwhile is ignored."""
        entry = self._entries.get(admission)
        if entry is None:
            return
        if entry.finished:
            raise ValueError(f"group {admission} finished twice")
        self._entries[admission] = replace(entry, group=group, group_version=group.oldest_version)

    def remove(self, admission: int) -> Outstanding | None:
        """Give a group's place back (dropped or refilled)."""
        return self._entries.pop(admission, None)

    def assign(self, admissions: Iterable[int], step: int) -> None:
        """Mark groups as cut for ``step``."""
        for admission in admissions:
            self._entries[admission] = replace(self._entries[admission], step=step)

    def complete(self, step: int) -> list[Outstanding]:
        """The trainer finished ``step``: its groups leave the set with one use more, its version is ``step + 1``."""
        if step != self.trainer_version:
            raise ValueError(f"step {step} completed while the trainer is at version {self.trainer_version}")
        done = [e for e in self.entries() if e.step == step]
        for entry in done:
            del self._entries[entry.admission]
        self.trainer_version = step + 1
        return [replace(e, uses=e.uses + 1) for e in done]

    def put_back(self, entries: Iterable[Outstanding], room: int | None = None) -> list[Outstanding]:
        """Finished groups that have trained wait once more, each only if all that waits still fits its deadlines.

        So the bound holds for reused groups by the same reasoning, and nothing that was admitted misses its step.

        The newest come first; ``room`` is how many may come (None: all). Returns those that wait again.
        """
        newest = [replace(e, step=None) for e in reversed(self.by_deadline(entries))][:room]
        if newest and self.overdue([*self.waiting(), *newest], self.next_step):
            newest = self._that_fit(newest)
        for entry in newest:
            self.admit(entry)
        return newest

    def _that_fit(self, entries: list[Outstanding]) -> list[Outstanding]:
        """As many as fit beside what waits, taken in order."""
        taken = self.waiting()
        fit = []
        for entry in entries:
            if not self.overdue([*taken, entry], self.next_step):
                taken.append(entry)
                fit.append(entry)
        return fit
