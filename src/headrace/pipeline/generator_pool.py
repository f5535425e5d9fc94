"""The controller's view of its generators: who is there, what each runs, which version each samples from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from headrace.errors import HeadraceError, PublicationError, WaitTimeout
from headrace.pipeline.messages import Acked, Cancel, Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.pipeline.signal import Changed
from headrace.records import Completion, GenerationRequest, IntArray, WeightSet


class Link(Protocol):
    """An ordered message link to one role: an ``AsyncChannel``, or a pair of queues in the simulation."""

    def send(self, message: Any) -> None: ...

    async def recv(self) -> Any: ...


@dataclass(slots=True)
class GeneratorState:
    """``attempts`` are the policy attempts that were promised to it and still need it; what fills its slots."""

    name: str
    link: Link
    num_slots: int = 0
    weight_sets: tuple[str, ...] = ("policy",)
    acked_version: int = -1
    attempts: set[str] = field(default_factory=set)
    usage: Usage = field(default_factory=Usage)
    futures: dict[str, asyncio.Future[Completion]] = field(default_factory=dict)
    outbox: list[GenerationRequest] = field(default_factory=list)
    pins: list[asyncio.Future[int]] = field(default_factory=list)
    max_pause_s: float = 0.0
    max_probe_error: float = 0.0

    @property
    def num_policy(self) -> int:
        """Policy sequences it has or is about to get."""
        return len(self.attempts)

    @property
    def owed(self) -> list[str]:
        """Requests it was sent and has not answered."""
        queued = {r.request_id for r in self.outbox}
        return [r for r in self.futures if r not in queued]


class GeneratorPool:
    """Sends requests, resolves completions, keeps acknowledged versions. One reader task a generator.

    ``last_heard`` is the time of the newest message of any generator.
    """

    def __init__(self, links: dict[str, Link], changed: Changed, clock: Callable[[], float]) -> None:
        self.states = {name: GeneratorState(name=name, link=link) for name, link in links.items()}
        self._changed = changed
        self._clock = clock
        self._published: dict[int, float] = {}  # versions that somebody may still have to confirm: when they came
        self._stopping = False
        self.last_heard = clock()

    async def start(self, timeout_s: float) -> None:
        """Wait until every generator has loaded its weights."""
        for state in self.states.values():
            message = await _recv(state.link, timeout_s, f"generator '{state.name}' to load its model")
            if not isinstance(message, GeneratorReady):
                raise HeadraceError(f"generator '{state.name}' began with {type(message).__name__}, not GeneratorReady")
            state.num_slots = message.num_slots
            state.weight_sets = message.weight_sets
            state.acked_version = message.version

    def readers(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._read(s), name=f"read-{s.name}") for s in self.states.values()]

    async def _read(self, state: GeneratorState) -> None:
        while True:
            message = await state.link.recv()
            self.last_heard = self._clock()
            match message:
                case Finished():
                    state.usage = message.usage
                    self._resolve(state, message.completions)
                case Acked():
                    self._acknowledge(state, message)
                case Pinned() if state.pins:
                    self._pinned(state.pins.pop(0), message.version)
                case _:
                    raise HeadraceError(f"generator '{state.name}' sent an unexpected {type(message).__name__}")
            self._changed.notify()

    def _resolve(self, state: GeneratorState, completions: Sequence[Completion]) -> None:
        for completion in completions:
            future = state.futures.pop(completion.request_id, None)
            state.attempts.discard(_attempt_of(completion.request_id))
            if future is not None and not future.done():
                future.set_result(completion)

    @staticmethod
    def _pinned(future: asyncio.Future[int], version: int) -> None:
        # Whoever asked may have given up; the answer still takes its place in the queue.
        if not future.done():
            future.set_result(version)

    def _acknowledge(self, state: GeneratorState, message: Acked) -> None:
        state.usage = message.usage
        state.acked_version = message.version
        state.max_pause_s = max(state.max_pause_s, message.pause_s)
        state.max_probe_error = max(state.max_probe_error, message.probe_error)

    def published(self, version: int) -> None:
        """The trainer published ``version``; every generator owes an acknowledgement, of it or of a newer one."""
        behind = min(s.acked_version for s in self.states.values())
        self._published = {v: t for v, t in self._published.items() if v > behind}
        self._published[version] = self._clock()

    def check_acknowledged(self, timeout_s: float) -> None:
        """Raise ``PublicationError`` when a generator has owed an acknowledgement for too long: a lost update."""
        now = self._clock()
        for state in self.states.values():
            lost = [v for v, t in self._published.items() if v > state.acked_version and now - t > timeout_s]
            if lost:
                raise PublicationError(
                    f"generator '{state.name}' still samples from version {state.acked_version}, {timeout_s:g} s after "
                    f"version {min(lost)} was published"
                )

    def reserve(self, state: GeneratorState, attempts: Sequence[str]) -> None:
        """Promise policy attempts to a generator: they count for its slots before their first request is sent."""
        state.attempts.update(attempts)

    def release(self, state: GeneratorState, attempts: Sequence[str]) -> None:
        """These attempts need the generator no more (sampled, failed or cancelled). Repeating it does no harm."""
        if not state.attempts.isdisjoint(attempts):
            state.attempts.difference_update(attempts)
            self._changed.notify()

    def request(self, state: GeneratorState, request: GenerationRequest) -> asyncio.Future[Completion]:
        """Queue a request; everything queued in one turn of the event loop travels in one message.

        An attempt fills a slot while a request of it is out, not while its environment waits for something else.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()
        state.futures[request.request_id] = future
        if request.weights == "policy":
            state.attempts.add(_attempt_of(request.request_id))
        if not state.outbox:
            loop.call_soon(self._flush, state)
        state.outbox.append(request)
        return future

    def _flush(self, state: GeneratorState) -> None:
        requests = tuple(r for r in state.outbox if r.request_id in state.futures)
        state.outbox.clear()
        if requests and not self._stopping:
            state.link.send(Submit(requests=requests))

    def cancel(self, state: GeneratorState, request_ids: Sequence[str]) -> None:
        known = tuple(r for r in request_ids if r in state.futures)
        for request_id in known:
            state.futures.pop(request_id).cancel()
        if known and not self._stopping:
            state.link.send(Cancel(request_ids=known))

    async def pin(self, state: GeneratorState, timeout_s: float) -> int:
        """Freeze the generator's present weights for evaluation; returns their version."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        state.pins.append(future)
        state.link.send(Pin())
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise WaitTimeout(f"waited {timeout_s:g} s for generator '{state.name}' to pin its weights") from None

    def stop(self) -> None:
        self._stopping = True
        for state in self.states.values():
            state.link.send(Stop())


def _attempt_of(request_id: str) -> str:
    """Requests are named ATTEMPT/CALL."""
    return request_id.rpartition("/")[0]


class PooledSampler:
    """A ``Sampler`` for one attempt: fixed generator, seed, temperature, weight set and budget."""

    def __init__(
        self,
        pool: GeneratorPool,
        state: GeneratorState,
        *,
        request_id: str,
        seed: int,
        temperature: float,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        weights: WeightSet,
        lineage: int,
    ) -> None:
        self._pool, self._state = pool, state
        self._request_id, self._seed, self._temperature = request_id, seed, temperature
        self._budget, self._stop = max_tokens, tuple(stop_token_ids)
        self._weights, self._lineage = weights, lineage
        self._calls = 0

    @property
    def temperature(self) -> float:
        return self._temperature

    async def generate(
        self, prefix_ids: IntArray, *, max_tokens: int | None = None, stop_token_ids: Sequence[int] | None = None
    ) -> Completion:
        """Continue ``prefix_ids`` within what is left of the attempt's budget; of none left, nothing is sampled."""
        budget = self._budget if max_tokens is None else min(max_tokens, self._budget)
        if budget <= 0:
            return _nothing(f"{self._request_id}/{self._calls}", self._lineage)
        request = GenerationRequest(
            request_id=f"{self._request_id}/{self._calls}",
            prefix_ids=prefix_ids,
            seed=self._seed,
            temperature=self._temperature,
            max_tokens=budget,
            stop_token_ids=self._stop if stop_token_ids is None else tuple(stop_token_ids),
            weights=self._weights,
            lineage=self._lineage,
        )
        self._calls += 1
        try:
            completion = await self._pool.request(self._state, request)
        except asyncio.CancelledError:
            self._pool.cancel(self._state, [request.request_id])
            raise
        self._budget -= len(completion.token_ids)
        return completion


def _nothing(request_id: str, lineage: int) -> Completion:
    return Completion(
        request_id=request_id,
        token_ids=np.zeros(0, np.int32),
        logprob=np.zeros(0, np.float32),
        policy_version=np.zeros(0, np.int32),
        finish_reason="length",
        lineage=lineage,
    )


async def _recv(link: Link, timeout_s: float, what: str) -> Any:
    try:
        return await asyncio.wait_for(link.recv(), timeout_s)
    except TimeoutError:
        raise WaitTimeout(f"waited {timeout_s:g} s for {what}") from None
