"""What the host knows of the sequences that are decoding: one row a sequence, arrays over rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.records import Completion, GenerationRequest

_MIN_WIDTH = 64


class SlotTable:
    """Rows 0 .. num_active-1 are running; ``compact`` keeps it so. All bookkeeping of a step is vectorised over rows.

    Per-row arrays: ``token`` is the last token known and ``position`` its place in the sequence (the next one is
    sampled from it), ``count`` the tokens sampled so far.
    """

    def __init__(self, num_rows: int) -> None:
        self.requests: list[GenerationRequest | None] = [None] * num_rows
        self.token = np.zeros(num_rows, np.int64)
        self.position = np.zeros(num_rows, np.int64)
        self.seed = np.zeros(num_rows, np.int64)
        self.temperature = np.ones(num_rows, np.float32)
        self.count = np.zeros(num_rows, np.int64)
        self.max_tokens = np.zeros(num_rows, np.int64)
        self.stop = np.full((num_rows, 1), -1, np.int64)
        self.num_active = 0
        self._row_of: dict[str, int] = {}
        self._changed = False  # a row was given or freed since the last ``compact``
        self._out_token = np.zeros((num_rows, _MIN_WIDTH), np.int32)
        self._out_logprob = np.zeros((num_rows, _MIN_WIDTH), np.float32)
        self._out_version = np.zeros((num_rows, _MIN_WIDTH), np.int32)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._row_of

    def free_rows(self, limit: int) -> list[int]:
        """Rows below ``limit`` that hold no sequence, lowest first."""
        return [row for row, request in enumerate(self.requests[:limit]) if request is None]

    def assign(self, row: int, request: GenerationRequest) -> None:
        """Start a request in a free row, at the last token of its prefix."""
        self._reserve(request.max_tokens, len(request.stop_token_ids))
        self.requests[row] = request
        self._row_of[request.request_id] = row
        self._changed = True
        self.token[row] = request.prefix_ids[-1]
        self.position[row] = len(request.prefix_ids) - 1
        self.seed[row] = request.seed
        self.temperature[row] = request.temperature
        self.count[row] = 0
        self.max_tokens[row] = request.max_tokens
        self.stop[row] = -1
        self.stop[row, : len(request.stop_token_ids)] = request.stop_token_ids

    def compact(self) -> tuple[list[int], list[int]]:
        """Move the last sequences into the holes; returns (from rows, to rows) for the cache to follow."""
        if not self._changed:
            return [], []
        self._changed = False
        total = len(self._row_of)
        holes = [row for row in range(total) if self.requests[row] is None]
        tail = [row for row in range(total, len(self.requests)) if self.requests[row] is not None]
        if holes:
            for array in self._arrays():
                array[holes] = array[tail]
        for source, target in zip(tail, holes):
            request = self.requests[source]
            assert request is not None
            self.requests[target], self.requests[source] = request, None
            self._row_of[request.request_id] = target
            self._clear(source)
        self.num_active = total
        return tail, holes

    def record(self, token: npt.NDArray[np.int64], logprob: npt.NDArray[np.float32], version: int) -> list[Completion]:
        """Append one sampled token a running row ([num_active] each); free and return the sequences that ended."""
        n = self.num_active
        rows = np.arange(n)
        count = self.count[:n]
        self._out_token[rows, count] = token
        self._out_logprob[rows, count] = logprob
        self._out_version[rows, count] = version
        self.token[:n] = token
        self.position[:n] += 1
        count += 1
        stopped = (self.stop[:n] == token[:, None]).any(axis=1)
        ended = np.flatnonzero(stopped | (count >= self.max_tokens[:n]))
        return [self._finish(int(row), "stop" if stopped[row] else "length") for row in ended]

    def drop(self, request_id: str) -> None:
        """Free the row of a running sequence, keeping nothing of it."""
        row = self._row_of.pop(request_id)
        self._changed = True
        self.requests[row] = None
        self._clear(row)

    def clear(self) -> None:
        for request_id in list(self._row_of):
            self.drop(request_id)
        self.num_active = 0

    def __len__(self) -> int:
        return len(self._row_of)

    def _finish(self, row: int, reason: str) -> Completion:
        request = self.requests[row]
        assert request is not None
        n = int(self.count[row])
        completion = Completion(
            request_id=request.request_id,
            token_ids=self._out_token[row, :n].copy(),
            logprob=self._out_logprob[row, :n].copy(),
            policy_version=self._out_version[row, :n].copy(),
            finish_reason=reason,
            lineage=request.lineage,
        )
        self.drop(request.request_id)
        return completion

    def _clear(self, row: int) -> None:
        """An empty row may be decoded as padding: it then reads token 0 at position 0."""
        self.token[row] = 0
        self.position[row] = 0
        self.temperature[row] = 1.0

    def _reserve(self, num_tokens: int, num_stops: int) -> None:
        width = self._out_token.shape[1]
        if num_tokens > width:
            width = max(num_tokens, 2 * width)
            self._out_token = _widened(self._out_token, width)
            self._out_logprob = _widened(self._out_logprob, width)
            self._out_version = _widened(self._out_version, width)
        if num_stops > self.stop.shape[1]:
            self.stop = _widened(self.stop, num_stops, fill=-1)

    def _arrays(self) -> Sequence[npt.NDArray]:
        return (
            self.token,
            self.position,
            self.seed,
            self.temperature,
            self.count,
            self.max_tokens,
            self.stop,
            self._out_token,
            self._out_logprob,
            self._out_version,
        )


def _widened(array: npt.NDArray, width: int, fill: int = 0) -> npt.NDArray:
    """A copy with ``width`` columns, the new ones holding ``fill``."""
    wide = np.full((len(array), width), fill, array.dtype)
    wide[:, : array.shape[1]] = array
    return wide
