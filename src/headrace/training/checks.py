"""What the trainer refuses to train on."""

from __future__ import annotations

from headrace.errors import LagViolation, RecordError
from headrace.records import MicroBatch, PackedBatch


def check_batch(batch: PackedBatch, *, version: int, lineage: int) -> None:
    """Raise ``RecordError`` when the batch was cut for another step or lineage than the trainer's."""
    if batch.step != version:
        raise RecordError(f"the batch was cut for step {batch.step}, the trainer is at version {version}")
    if batch.lineage != lineage:
        raise RecordError(f"the batch is of lineage {batch.lineage}, the trainer of lineage {lineage}")


def check_lag(micro: MicroBatch, *, step: int, max_lag: int) -> None:
    """Raise ``LagViolation`` when a trainable token's lag (step - policy version) is above ``max_lag`` or below 0."""
    lag = step - micro.policy_version[micro.trainable]
    if lag.size and (lag.max() > max_lag or lag.min() < 0):
        worst = int(lag.max()) if lag.max() > max_lag else int(lag.min())
        raise LagViolation(f"step {step}: a token of lag {worst} reached the trainer; the bound is 0 to {max_lag}")
