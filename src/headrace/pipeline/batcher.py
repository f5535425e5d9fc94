"""Consumption: which finished groups train in the next step, by deadline, and the sweep that proves the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.errors import LagViolation
from headrace.metrics.rollout_stats import rollout_stats
from headrace.pipeline.ledger import LagSchedule, Ledger, Outstanding
from headrace.records import NO_VERSION, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A batch cut for a numbered step, groups in admission order, and the groups dropped for it (at_bound 'drop').

    ``uses`` says of each group in how many steps it trained before. A group that had trained is not among the dropped.
    """

    step: int
    groups: tuple[Group, ...]
    uses: tuple[int, ...] = ()
    dropped: tuple[Outstanding, ...] = ()


def choose(ledger: Ledger) -> list[Outstanding] | None:
    """The finished groups with the earliest deadlines, a step's worth, or None when there are too few."""
    if ledger.num_ready < ledger.groups_per_step:
        return None
    return ledger.by_deadline(e for e in ledger.waiting() if e.finished)[: ledger.groups_per_step]


def cut(ledger: Ledger, *, at_bound: str) -> Cut | None:
    """Cut the next step's batch, or None when it cannot be cut yet.

    A finished group may overtake an unfinished one only if everything left still fits its deadlines; otherwise 'wait'
    waits for the unfinished group and 'drop' gives it up. The chosen groups are marked in the ledger.
    """
    step = ledger.next_step
    chosen = choose(ledger)
    if chosen is None:
        return None
    taken = {e.admission for e in chosen}
    left = [e for e in ledger.waiting() if e.admission not in taken]
    late = ledger.overdue(left, step + 1)
    if late and at_bound == "wait":
        _check_that_waiting_helps(ledger, step)
        return None
    dropped = _drop_until_it_fits(ledger, left, step + 1)
    for entry in dropped:
        ledger.remove(entry.admission)
    ordered = sorted(chosen, key=lambda e: e.admission)
    groups = tuple(e.group for e in ordered if e.group is not None)
    sweep(groups, step=step, max_lag=ledger.max_lag)
    ledger.assign(taken, step)
    untrained = tuple(e for e in dropped if not e.uses)
    return Cut(step=step, groups=groups, uses=tuple(e.uses for e in ordered), dropped=untrained)


def _check_that_waiting_helps(ledger: Ledger, step: int) -> None:
    """Raise ``LagViolation`` when some group misses its deadline even if all finish at once; else a run would hang."""
    for place, entry in enumerate(ledger.by_deadline(ledger.waiting())):
        trains_in = step + place // ledger.groups_per_step
        if ledger.deadline(entry) < trains_in:
            lag, bound = trains_in - entry.oldest_version, ledger.max_lag(trains_in)
            raise LagViolation(
                f"group {entry.admission} can be trained in step {trains_in} at the earliest, at lag {lag}; max_lag is "
                f"{bound}: it should not have started"
            )


def _drop_until_it_fits(ledger: Ledger, left: list[Outstanding], first_step: int) -> list[Outstanding]:
    """Earliest deadlines go first; a group that has trained before one that has not, and one that is still being
    written before one that is finished."""
    dropped = []
    while ledger.overdue(left, first_step):
        limit = min(ledger.deadline(e) for e in ledger.overdue(left, first_step))
        candidates = [e for e in left if ledger.deadline(e) <= limit]
        victim = min(candidates, key=lambda e: (not e.uses, e.finished, ledger.deadline(e), e.admission))
        left.remove(victim)
        dropped.append(victim)
    return dropped


def sweep(groups: Sequence[Group], *, step: int, max_lag: LagSchedule) -> None:
    """Check every trainable token of the batch against the bound; raises ``LagViolation`` naming the rollout."""
    rollouts = [r for g in groups for r in g.rollouts]
    stats, bound = rollout_stats(rollouts), max_lag(step)
    written = stats.oldest != NO_VERSION
    for i in np.flatnonzero(written & ((step - stats.oldest > bound) | (stats.newest > step))):
        who = f"rollout {rollouts[i].rollout_id}"
        lag = step - stats.oldest[i]
        if lag > bound:
            raise LagViolation(f"{who} would be trained at lag {lag} in step {step}, max_lag is {bound}")
        raise LagViolation(f"{who} has a token of version {stats.newest[i]}, newer than step {step}")
