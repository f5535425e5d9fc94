"""The sequences of one weight set: their queue, their slots, their cache, and one decode step over them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.engines.kv_cache import KVCache
from headrace.engines.noise import uniform
from headrace.engines.sampling import sample
from headrace.engines.slots import SlotTable

if TYPE_CHECKING:
    from headrace.engines.decoder import Decoder
    from headrace.records import Completion, GenerationRequest

PREFILL_TOKENS = 4096  # padded prompt tokens that go through the model together
MIN_ROWS = 4  # matrix kernels treat fewer rows differently in the last bit
LENGTH_STEP = 16


class Lane:
    """Continuous batching with one decoder. ``deterministic`` fixes the shapes a sequence is computed in.

    A row's numbers then do not depend on the other rows: row counts are powers of two from ``MIN_ROWS``, attention
    widths and prefill lengths are multiples of ``LENGTH_STEP``, and every prefix is prefilled alone.
    """

    def __init__(self, decoder: Decoder, *, num_slots: int, max_len: int, deterministic: bool) -> None:
        self.decoder = decoder
        self.num_slots = num_slots
        self._deterministic = deterministic
        num_rows = _ladder(num_slots) if deterministic else num_slots
        self._table = SlotTable(num_rows)
        self._cache = KVCache(num_rows, max_len, decoder.dtype, decoder.device)
        self._waiting: deque[GenerationRequest] = deque()

    @property
    def num_active(self) -> int:
        return len(self._table)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting) or len(self._table) > 0

    def submit(self, request: GenerationRequest) -> None:
        self._waiting.append(request)

    def cancel(self, request_id: str) -> None:
        """Forget a running or queued request."""
        if request_id in self._table:
            self._table.drop(request_id)
        else:
            self._waiting = deque(r for r in self._waiting if r.request_id != request_id)

    def clear(self) -> None:
        self._waiting.clear()
        self._table.clear()
        self._cache.clear()

    def step(self, version: int) -> list[Completion]:
        """Refill free slots, sample one token for every running sequence, return the sequences that ended."""
        self._fill()
        self._close_holes()
        n = self._table.num_active
        if n == 0:
            return []
        token, logprob = self._decode(_ladder(n) if self._deterministic else n)
        return self._table.record(token[:n], logprob[:n], version)

    def _decode(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        table, device = self._table, self.decoder.device
        position = table.position[:rows]
        width = int(position.max()) + 1
        if self._deterministic:
            width = _round_up(width)
        view = self._cache.view(position, width)
        token = torch.from_numpy(table.token[:rows]).to(device)
        logits = self.decoder.decode(token, view.position, view)
        noise = torch.from_numpy(uniform(table.seed[:rows], position + 1)).to(device)
        warmth = table.temperature[:rows]
        temperature = None if (warmth == 1.0).all() else torch.from_numpy(warmth).to(device)
        chosen, logprob = sample(logits, temperature, noise)
        return chosen.cpu().numpy(), logprob.cpu().numpy()

    def _fill(self) -> None:
        """Give free slots to waiting requests and prefill what their prefixes have before the last token."""
        if not self._waiting:
            return
        rows_of: dict[bytes, list[int]] = {}
        prefix_of: dict[bytes, np.ndarray] = {}
        for row in self._table.free_rows(self.num_slots):
            if not self._waiting:
                break
            request = self._waiting.popleft()
            self._table.assign(row, request)
            prefix = np.asarray(request.prefix_ids[:-1], dtype=np.int64)
            if len(prefix):
                rows_of.setdefault(prefix.tobytes(), []).append(row)
                prefix_of[prefix.tobytes()] = prefix
        keys = sorted(prefix_of, key=lambda key: len(prefix_of[key]))
        for chunk in self._chunks([len(prefix_of[key]) for key in keys]):
            self._prefill([prefix_of[keys[i]] for i in chunk], [rows_of[keys[i]] for i in chunk])

    def _prefill(self, prefixes: Sequence[np.ndarray], rows: Sequence[Sequence[int]]) -> None:
        """Run distinct prefixes together, padded on the right, and give each one's keys and values to its rows."""
        length = max(len(prefix) for prefix in prefixes)
        planes = self.decoder.prefill(padded(prefixes, self._length(length)).to(self.decoder.device))
        flat = [row for group in rows for row in group]
        source = [i for i, group in enumerate(rows) for _ in group]
        self._cache.store(flat, source, [plane[:, :, :length] for plane in planes])

    def _chunks(self, lengths: Sequence[int]) -> Iterator[range]:
        """Cut sequences sorted by length into runs of at most ``PREFILL_TOKENS`` padded tokens."""
        yield from chunks(lengths, 1 if self._deterministic else PREFILL_TOKENS)

    def _length(self, length: int) -> int:
        return _round_up(length) if self._deterministic else length

    def _close_holes(self) -> None:
        source, target = self._table.compact()
        if source:
            self._cache.move(source, target, int(self._table.position[target].max()))


def chunks(lengths: Sequence[int], budget: int) -> Iterator[range]:
    """Runs of consecutive items (lengths ascending) whose padded size stays within ``budget``, one item at least."""
    start = 0
    for end in range(1, len(lengths) + 1):
        if end == len(lengths) or lengths[end] * (end + 1 - start) > budget:
            yield range(start, end)
            start = end


def padded(sequences: Sequence[np.ndarray], length: int) -> torch.Tensor:
    """int64 [B, length], zeros on the right."""
    out = np.zeros((len(sequences), length), np.int64)
    for row, sequence in enumerate(sequences):
        out[row, : len(sequence)] = sequence
    return torch.from_numpy(out)


def _ladder(rows: int) -> int:
    return max(MIN_ROWS, 1 << (rows - 1).bit_length())


def _round_up(length: int) -> int:
    return -(-length // LENGTH_STEP) * LENGTH_STEP
