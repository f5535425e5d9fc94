"""Ranks as threads of one process: sums are exchanged over a barrier instead of a process group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from headrace.training.ranks import Ranks


class _Meeting:
    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=60)
        self.brought: list[Any] = [None] * size


class ThreadRanks(Ranks):
    def __init__(self, rank: int, size: int, meeting: _Meeting) -> None:
        super().__init__(rank, size)
        self._meeting = meeting

    def _exchange(self, value: Any) -> list[Any]:
        self._meeting.brought[self.rank] = value
        self._meeting.barrier.wait()
        everybody = list(self._meeting.brought)
        self._meeting.barrier.wait()
        return everybody

    def sum_values(self, *values: float) -> list[float]:
        return [sum(column) for column in zip(*self._exchange(values), strict=True)]

    def sum_tensors(self, tensors: Sequence[torch.Tensor]) -> None:
        everybody = self._exchange([t.clone() for t in tensors])
        for index, tensor in enumerate(tensors):
            tensor.copy_(sum(own[index] for own in everybody))

    def gather(self, value: Any) -> list[Any]:
        everybody = self._exchange(value)
        return everybody if self.rank == 0 else [value]

    def everybody(self, value: Any) -> list[Any]:
        return self._exchange(value)


def thread_ranks(size: int) -> list[Ranks]:
    """Ranks that meet each other; each belongs in a thread of its own."""
    meeting = _Meeting(size)
    return [ThreadRanks(rank, size, meeting) for rank in range(size)]


def together(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """``work`` of every item, at the same time."""
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(work, items))
