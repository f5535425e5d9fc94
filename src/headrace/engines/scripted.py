"""A fake engine without a model: the same contract, numpy only. For tests and simulation."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.engines.noise import uniform
from headrace.engines.requests import check_request
from headrace.engines.turns import Turns
from headrace.errors import DataError, HeadraceError, PublicationError
from headrace.records import Completion, FloatArray, GenerationRequest, IntArray, WeightSet, WeightUpdate

_LENGTH_STREAM = -2  # a position no token has: its number decides the length


@dataclass
class _Running:
    request: GenerationRequest
    script: IntArray  # the tokens it will write
    versions: list[int] = field(default_factory=list)


class _Queue:
    """The sequences of one weight set, in order of submission."""

    def __init__(self) -> None:
        self.waiting: deque[GenerationRequest] = deque()
        self.running: dict[str, _Running] = {}

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)


class ScriptedEngine:
    """Writes tokens that are a function of the request's seed alone, one a step and sequence.

    A sequence whose request names stop tokens ends with one of them after ``length_of(request)`` tokens (``"stop"``),
    unless ``max_tokens`` comes first (``"length"``). Every token has log-probability ``log(1 / vocab_size)``.

    Args:
        num_slots: sequences of one weight set that decode at the same time.
        length_of: tokens a request writes, its stop token included; by default uniform over 1 .. ``max_tokens``, by
            seed.
    """

    name = "scripted"
    batch_invariant = True
    weight_sets: tuple[str, ...] = ("policy", "pinned")

    def __init__(
        self,
        *,
        num_slots: int,
        vocab_size: int = 96,
        max_len: int = 512,
        length_of: Callable[[GenerationRequest], int] | None = None,
    ) -> None:
        if num_slots < 1:
            raise DataError(f"num_slots is {num_slots}; an engine needs at least 1")
        self.num_slots = num_slots
        self.vocab_size = vocab_size
        self.max_len = max_len
        self.version = 0
        self.pinned_version: int | None = None
        self.checksum = 0  # CRC-32 of the last weight buffer taken
        self._length_of = length_of or _seeded_length
        self._logprob = np.float32(-np.log(vocab_size))
        self._lineage = 0
        self._turns = Turns()
        self._queues: dict[str, _Queue] = {"policy": _Queue(), "pinned": _Queue()}
        self._queue_of: dict[str, _Queue] = {}

    @property
    def num_active(self) -> int:
        return sum(len(queue.running) for queue in self._queues.values())

    @property
    def num_waiting(self) -> int:
        return sum(len(queue.waiting) for queue in self._queues.values())

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request. Raises ``DataError`` naming it when it does not fit the context, or cannot be served."""
        check_request(request, max_len=self.max_len, vocab_size=self.vocab_size, lineage=self._lineage)
        if request.request_id in self._queue_of:
            raise DataError(f"request {request.request_id!r} is already queued or running")
        self._check_served(request.weights)
        queue = self._queues[request.weights]
        self._queue_of[request.request_id] = queue
        queue.waiting.append(request)

    def cancel(self, request_id: str) -> None:
        """Forget a queued or running request; unknown ids are ignored."""
        queue = self._queue_of.pop(request_id, None)
        if queue is not None and queue.running.pop(request_id, None) is None:
            queue.waiting = deque(r for r in queue.waiting if r.request_id != request_id)

    def step(self) -> list[Completion]:
        """Serve the weight set whose turn it is: fill its slots, write a token a sequence, return what ended."""
        turn = self._turns.take(policy=self._queues["policy"].has_work, pinned=self._queues["pinned"].has_work)
        if turn is None:
            return []
        queue = self._queues[turn]
        version = self.version if turn == "policy" else self.pinned_version
        assert version is not None
        while queue.waiting and len(queue.running) < self.num_slots:
            request = queue.waiting.popleft()
            queue.running[request.request_id] = _Running(request, self._script(request))
        for running in queue.running.values():
            running.versions.append(version)
        return [
            self._finish(queue, run) for run in list(queue.running.values()) if len(run.versions) == len(run.script)
        ]

    def load_weights(self, update: WeightUpdate) -> None:
        """Take up the version and the buffer's checksum. An update of a newer lineage first resets the engine to it."""
        if update.lineage < self._lineage:
            raise PublicationError(f"weights of lineage {update.lineage} reached an engine of lineage {self._lineage}")
        if update.lineage > self._lineage:
            self.reset(update.lineage)
        self.version = update.version
        self.checksum = zlib.crc32(update.buffer.tobytes())

    def pin(self) -> int:
        """Pin the current version. Raises ``HeadraceError`` while a pinned sequence is queued or running."""
        if self._queues["pinned"].has_work:
            raise HeadraceError("weights cannot be pinned while sequences of the pinned set are queued or running")
        self.pinned_version = self.version
        return self.version

    def score(self, sequences: Sequence[IntArray], *, weights: WeightSet = "policy") -> list[FloatArray]:
        """The constant log-probability, [l-1] of it a sequence."""
        self._check_served(weights)
        return [np.full(max(0, len(sequence) - 1), self._logprob, np.float32) for sequence in sequences]

    def reset(self, lineage: int) -> None:
        """Drop every sequence and what is pinned, and take requests of ``lineage`` from now on."""
        self._queues = {"policy": _Queue(), "pinned": _Queue()}
        self._queue_of.clear()
        self.pinned_version = None
        self._lineage = lineage

    def _check_served(self, weights: str) -> None:
        if weights == "pinned" and self.pinned_version is None:
            raise DataError("nothing is pinned yet: call pin() before asking for the pinned weights")

    def _script(self, request: GenerationRequest) -> IntArray:
        """Seeded tokens clear of the stop tokens, and a stop token last if the sequence ends by one."""
        wanted = max(1, self._length_of(request)) if request.stop_token_ids else request.max_tokens + 1
        length = min(wanted, request.max_tokens)
        allowed = np.setdiff1d(np.arange(self.vocab_size, dtype=np.int32), request.stop_token_ids)
        position = np.arange(length) + len(request.prefix_ids)
        noise = uniform(np.full(length, request.seed, np.int64), position)
        script = allowed[(noise * len(allowed)).astype(np.int64)]
        if wanted <= request.max_tokens:
            script[-1] = request.stop_token_ids[0]
        return script

    def _finish(self, queue: _Queue, running: _Running) -> Completion:
        request = running.request
        del queue.running[request.request_id], self._queue_of[request.request_id]
        return Completion(
            request_id=request.request_id,
            token_ids=running.script,
            logprob=np.full(len(running.script), self._logprob, np.float32),
            policy_version=np.asarray(running.versions, np.int32),
            finish_reason="stop" if int(running.script[-1]) in request.stop_token_ids else "length",
            lineage=request.lineage,
        )


def _seeded_length(request: GenerationRequest) -> int:
    number = uniform(np.array([request.seed], np.int64), np.array([_LENGTH_STREAM], np.int64))[0]
    return 1 + int(number * request.max_tokens)
