"""Admission: whether a group may start now, so that it can be trained within the bound whatever happens later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """``reason`` names what holds the gate shut ('' when open): 'lag', 'ready' or 'end'."""

    open: bool
    reason: str = ""


class Gate(Protocol):
    """Decides whether one more group may start on a generator that samples from ``acked_version``."""

    def decide(self, ledger: Ledger, acked_version: int) -> GateDecision: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionGate:
    """Admits a group on a generator iff ``target_step - acked_version <= max_lag(target_step)``.

    With n outstanding groups the new one can always be trained last, in step ``trainer_version + n //
    groups_per_step``; training in deadline order is feasible whenever any order is. So the bound holds without ever
    dropping a group.
    (The simpler rule "at most (max_lag + 1) * groups_per_step outstanding" reaches lag max_lag + 1.)
    """

    total_steps: int
    max_ready_batches: int

    def decide(self, ledger: Ledger, acked_version: int) -> GateDecision:
        target = ledger.target_step
        if target >= self.total_steps:
            return GateDecision(open=False, reason="end")
        if target - acked_version > ledger.max_lag(target):
            return GateDecision(open=False, reason="lag")
        if ledger.num_ready >= self.max_ready_batches * ledger.groups_per_step:
            return GateDecision(open=False, reason="ready")
        return GateDecision(open=True)
