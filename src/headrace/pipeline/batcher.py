"""Consumption: which finished groups train in the next step, by deadline, and the sweep that proves the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import LagViolation
from headrace.pipeline.ledger import LagSchedule, Ledger, Outstanding
from headrace.records import NO_VERSION, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A batch cut for a numbered step, groups in admission order, and the groups dropped for it (at_bound 'drop')."""

    step: int
    groups: tuple[Group, ...]
    dropped: tuple[Outstanding, ...] = ()


def choose(ledger: Ledger) -> list[Outstanding] | None:
    """The finished groups with the earliest deadlines, a step's worth, or None when there are too few."""
    finished = ledger.by_deadline(e for e in ledger.waiting() if e.finished)
    return finished[: ledger.groups_per_step] if len(finished) >= ledger.groups_per_step else None


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
        return None
    dropped = _drop_until_it_fits(ledger, left, step + 1)
    for entry in dropped:
        ledger.remove(entry.admission)
    groups = tuple(e.group for e in sorted(chosen, key=lambda e: e.admission) if e.group is not None)
    sweep(groups, step=step, max_lag=ledger.max_lag)
    ledger.assign(taken, step)
    return Cut(step=step, groups=groups, dropped=tuple(dropped))


def _drop_until_it_fits(ledger: Ledger, left: list[Outstanding], first_step: int) -> list[Outstanding]:
    """Earliest deadlines go first; a group that is still being written before one that is finished."""
    dropped = []
    while ledger.overdue(left, first_step):
        limit = min(ledger.deadline(e) for e in ledger.overdue(left, first_step))
        candidates = [e for e in left if ledger.deadline(e) <= limit]
        victim = min(candidates, key=lambda e: (e.finished, ledger.deadline(e), e.admission))
        left.remove(victim)
        dropped.append(victim)
    return dropped


def sweep(groups: Sequence[Group], *, step: int, max_lag: LagSchedule) -> None:
    """Check every trainable token of the batch against the bound; raises ``LagViolation`` naming the rollout."""
    for group in groups:
        for rollout in group.rollouts:
            if rollout.oldest_version == NO_VERSION:
                continue
            newest = int(rollout.policy_version[rollout.trainable].max())
            lag = step - rollout.oldest_version
            if lag > max_lag(step):
                raise LagViolation(
                    f"rollout {rollout.rollout_id} would be trained at lag {lag} in step {step}, max_lag is {max_lag(step)}"
                )
            if newest > step:
                raise LagViolation(
                    f"rollout {rollout.rollout_id} has a token of version {newest}, newer than step {step}"
                )
