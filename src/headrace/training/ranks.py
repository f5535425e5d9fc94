"""Data-parallel trainer processes: every rank holds the model, trains its share of the rows, and sums the gradients.

Loss weights are counted over the whole update before rows are dealt out, so the sum over ranks is the gradient one
process would have computed, whatever the split.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from headrace.records import MicroBatch, PackedBatch


class Ranks:
    """Rank ``rank`` of ``size`` processes; one process needs no group and pays nothing."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @classmethod
    def join(cls, rank: int, size: int, meeting_file: str) -> Ranks:
        """Meet the other ranks through a file in the run folder; returns when all are there. Gloo, for CPU."""
        if size > 1:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            dist.init_process_group("gloo", init_method=f"file://{meeting_file}", rank=rank, world_size=size)
        return cls(rank, size)

    def share(self, batch: PackedBatch) -> PackedBatch:
        """The rows this rank trains: every ``size``-th of each micro-batch. Micro-batches stay equal in number."""
        if self.size == 1:
            return batch
        cut: dict[int, MicroBatch] = {}
        for update in batch.updates:
            for micro in update:
                cut.setdefault(id(micro), self._rows(micro))
        return replace(batch, updates=tuple(tuple(cut[id(m)] for m in update) for update in batch.updates))

    def _rows(self, micro: MicroBatch) -> MicroBatch:
        return MicroBatch(**{f.name: getattr(micro, f.name)[self.rank :: self.size] for f in fields(micro)})

    def sum_values(self, *values: float) -> list[float]:
        """Sums over all ranks, float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def sum_tensors(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors of one dtype by their sums over all ranks, in one exchange."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.all_reduce(flat)
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, by rank, on rank 0; elsewhere only one's own."""
        if self.size == 1:
            return [value]
        found: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, found)
        return found if found is not None else [value]

    def everybody(self, value: Any) -> list[Any]:
        """Everybody's value, by rank, on every rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def leave(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
