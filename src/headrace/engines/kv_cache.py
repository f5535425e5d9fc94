"""Keys and values of the sequences that are decoding: planes of [rows, heads, capacity, D], allocated ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from torch import Tensor

_STEP = 16
_FIRST_CAPACITY = 128


class KVCache:
    """Planes appear when they are first written and grow by doubling, up to ``max_len`` positions.

    Positions beyond a row's own are masked, never cleared; planes start as zeros so that what is masked is finite.
    """

    def __init__(self, num_rows: int, max_len: int, dtype: torch.dtype, device: torch.device) -> None:
        self.num_rows = num_rows
        self._max_len = max_len
        self._dtype = dtype
        self._device = device
        self._planes: dict[int, Tensor] = {}
        self._capacity = 0
        self.reserve(min(_FIRST_CAPACITY, max_len))

    def reserve(self, length: int) -> None:
        """Make room for sequences of this many tokens."""
        if length <= self._capacity:
            return
        wanted = _round_up(min(max(length, 2 * self._capacity), max(self._max_len, length)))
        # An even number of steps would put the heads at power-of-two distances, which the CPU's caches handle badly.
        self._capacity = wanted if wanted // _STEP % 2 else wanted + _STEP
        for index, plane in self._planes.items():
            grown = self._empty(plane.shape[1], plane.shape[3])
            grown[:, :, : plane.shape[2]] = plane
            self._planes[index] = grown

    def store(self, rows: Sequence[int], source: Sequence[int], planes: Sequence[Tensor]) -> None:
        """Start rows with a prefill: row ``rows[i]`` takes entry ``source[i]`` of each plane [B, heads, P, D]."""
        length = planes[0].shape[2]
        self.reserve(length)
        target, taken = self._index(rows), self._index(source)
        for index, values in enumerate(planes):
            plane = self._plane(index, values.shape[1], values.shape[3])
            plane[:, :, :length].index_copy_(0, target, values.index_select(0, taken))

    def move(self, source: Sequence[int], target: Sequence[int], length: int) -> None:
        """Copy the first ``length`` positions of some rows over others."""
        taken, given = self._index(source), self._index(target)
        for plane in self._planes.values():
            used = plane[:, :, :length]
            used.index_copy_(0, given, used.index_select(0, taken))

    def view(self, position: npt.NDArray[np.int64], width: int) -> RowsView:
        """Rows 0 .. n-1 for a decode step that writes at ``position`` [n] and looks at ``width`` > max(position)."""
        self.reserve(width)
        return RowsView(self, position, width)

    def clear(self) -> None:
        """Forget everything, non-finite leftovers of broken weights included."""
        for plane in self._planes.values():
            plane.zero_()

    def _plane(self, index: int, heads: int, dim: int) -> Tensor:
        if index not in self._planes:
            self._planes[index] = self._empty(heads, dim)
        return self._planes[index]

    def _empty(self, heads: int, dim: int) -> Tensor:
        return torch.zeros(self.num_rows, heads, self._capacity, dim, dtype=self._dtype, device=self._device)

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.int64, device=self._device)


class RowsView:
    """One decode step's window on the cache: the first n rows, the first ``width`` positions."""

    def __init__(self, cache: KVCache, position: npt.NDArray[np.int64], width: int) -> None:
        self._cache = cache
        self._num_rows = len(position)
        self._flat: dict[int, Tensor] = {}
        self.width = width
        self.position = torch.from_numpy(position).to(cache._device)
        seen = torch.arange(width, device=cache._device) <= self.position[:, None]
        self.mask = torch.where(seen, 0.0, float("-inf")).to(cache._dtype)[:, None, None]

    def append(self, plane: int, values: Tensor) -> Tensor:
        """Write [n, heads, D] at each row's position; return [n, heads, width, D], the new values among them."""
        heads, dim = values.shape[1], values.shape[2]
        store = self._cache._plane(plane, heads, dim)
        store.view(-1, dim).index_copy_(0, self._targets(heads), values.reshape(-1, dim))
        return store[: self._num_rows, :, : self.width]

    def _targets(self, heads: int) -> Tensor:
        """Where a step's values go in a plane flattened to [rows * heads * capacity, D]; int64 [n * heads]."""
        if heads not in self._flat:
            place = torch.arange(self._num_rows * heads, device=self.position.device).view(-1, heads)
            self._flat[heads] = (place * self._cache._capacity + self.position[:, None]).view(-1)
        return self._flat[heads]


def _round_up(length: int) -> int:
    return -(-length // _STEP) * _STEP
