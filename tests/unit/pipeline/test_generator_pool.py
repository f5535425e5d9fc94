"""Requests in batches, answers to their askers, acknowledgements on time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from headrace.errors import HeadraceError, PublicationError, WaitTimeout
from headrace.pipeline.generator_pool import GeneratorPool, GeneratorState, PooledSampler
from headrace.pipeline.messages import Acked, Cancel, Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.pipeline.signal import Changed
from headrace.pipeline.sim.virtual_loop import run_virtual
from headrace.records import Completion, GenerationRequest

PREFIX = np.asarray([1, 2], np.int32)


class FakeLink:
    """Keeps what is sent; the test puts answers into ``inbox``."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()

    def send(self, message: Any) -> None:
        self.sent.append(message)

    async def recv(self) -> Any:
        return await self.inbox.get()


def completion(request_id: str, n: int = 3) -> Completion:
    return Completion(
        request_id=request_id,
        token_ids=np.arange(n, dtype=np.int32),
        logprob=np.full(n, -0.5, np.float32),
        policy_version=np.zeros(n, np.int32),
        finish_reason="stop",
    )


def request(request_id: str) -> GenerationRequest:
    return GenerationRequest(
        request_id=request_id, prefix_ids=PREFIX, seed=1, temperature=1.0, max_tokens=5, stop_token_ids=(0,)
    )


def ready(version: int = 0) -> GeneratorReady:
    return GeneratorReady(num_slots=4, version=version, weight_sets=("policy", "pinned"), batch_invariant=True)


def acked(version: int) -> Acked:
    return Acked(version=version, pause_s=0.0, probe_error=0.0, usage=Usage())


Body = Callable[[GeneratorPool, GeneratorState, FakeLink], Coroutine[Any, Any, None]]


def with_pool(body: Body) -> None:
    """Run ``body`` with a pool of one generator that is ready, on virtual time."""

    async def main() -> None:
        link = FakeLink()
        pool = GeneratorPool({"g": link}, Changed(), asyncio.get_running_loop().time)
        link.inbox.put_nowait(ready())
        await pool.start(1.0)
        readers = pool.readers()
        try:
            await body(pool, pool.states["g"], link)
        finally:
            for task in readers:
                task.cancel()
            ends = await asyncio.gather(*readers, return_exceptions=True)
        assert all(isinstance(e, asyncio.CancelledError) for e in ends), ends

    run_virtual(main())


def sampler(pool: GeneratorPool, state: GeneratorState, max_tokens: int = 10, name: str = "a") -> PooledSampler:
    return PooledSampler(
        pool,
        state,
        request_id=name,
        seed=1,
        temperature=1.0,
        max_tokens=max_tokens,
        stop_token_ids=(0,),
        weights="policy",
        lineage=0,
    )


def test_requests_of_one_turn_travel_in_one_message() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        futures = [pool.request(state, request(n)) for n in "abc"]
        await asyncio.sleep(0)
        assert [[r.request_id for r in m.requests] for m in link.sent] == [["a", "b", "c"]]
        pool.request(state, request("d"))
        await asyncio.sleep(0)
        assert len(link.sent) == 2
        link.inbox.put_nowait(Finished(completions=(completion("b"), completion("a")), usage=Usage(num_tokens=6)))
        assert (await futures[0]).request_id == "a"
        assert (await futures[1]).request_id == "b"
        assert not futures[2].done()
        assert state.owed == ["c", "d"]
        assert state.usage.num_tokens == 6

    with_pool(body)


def test_a_cancelled_attempt_is_cancelled_in_the_generator_and_its_late_answer_ignored() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        task = asyncio.create_task(sampler(pool, state).generate(PREFIX))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0.1)
        assert isinstance(link.sent[0], Submit)
        assert link.sent[1:] == [Cancel(request_ids=("a/0",))]
        assert state.owed == []
        link.inbox.put_nowait(Finished(completions=(completion("a/0"),), usage=Usage()))
        await asyncio.sleep(0.1)

    with_pool(body)


def test_a_request_cancelled_before_it_was_sent_never_is() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        pool.request(state, request("a"))
        pool.request(state, request("b"))
        pool.cancel(state, ["a", "unknown"])
        await asyncio.sleep(0)
        assert [r.request_id for m in link.sent if isinstance(m, Submit) for r in m.requests] == ["b"]

    with_pool(body)


def test_reserved_attempts_fill_slots_until_they_are_released_once() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        pool.reserve(state, ["a", "b"])
        assert state.num_policy == 2
        pool.release(state, ["a"])
        pool.release(state, ["a", "unknown"])
        assert state.num_policy == 1
        pool.release(state, ["a", "b"])
        assert state.num_policy == 0

    with_pool(body)


def test_the_budget_of_an_attempt_is_for_all_its_turns() -> None:
    """10 tokens: a turn of 3, one that may take 4 and takes 4, then 3 are left, then none and nothing is asked."""

    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        turns = sampler(pool, state, max_tokens=10)
        for number, (asked, length, expected) in enumerate([(None, 3, 10), (4, 4, 4), (None, 3, 3)]):
            task = asyncio.create_task(turns.generate(PREFIX, max_tokens=asked))
            await asyncio.sleep(0.1)
            assert [(r.request_id, r.max_tokens) for r in link.sent[-1].requests] == [(f"a/{number}", expected)]
            link.inbox.put_nowait(Finished(completions=(completion(f"a/{number}", length),), usage=Usage()))
            await task
        nothing = await turns.generate(PREFIX)
        assert (len(nothing.token_ids), nothing.finish_reason) == (0, "length")
        assert len(link.sent) == 3

    with_pool(body)


def test_every_version_is_owed_from_the_moment_it_was_published() -> None:
    """Versions 1, 2, 3 come at 0, 10 and 20 s; the generator confirms 1 at 15 s and 2 at 25 s. With a time-out of
    20 s it is never late before 40 s, when 3 is; with 12 s, version 1 is at 12.5 s."""

    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        async def until(when: float) -> None:
            await asyncio.sleep(when - asyncio.get_running_loop().time())

        pool.published(1)
        await until(10)
        pool.published(2)
        await until(12.5)
        with pytest.raises(PublicationError, match=r"'g' still samples from version 0, 12 s after version 1 was"):
            pool.check_acknowledged(12)
        await until(15)
        link.inbox.put_nowait(acked(1))
        await until(20)
        pool.published(3)
        await until(25)
        pool.check_acknowledged(20)
        link.inbox.put_nowait(acked(2))
        await until(39)
        pool.check_acknowledged(20)
        await until(40.5)
        with pytest.raises(PublicationError, match="version 2, 20 s after version 3"):
            pool.check_acknowledged(20)

    with_pool(body)


def test_versions_may_be_skipped_and_confirmed_before_the_trainers_own_message_comes() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        pool.published(1)
        link.inbox.put_nowait(acked(3))
        await asyncio.sleep(0.1)
        pool.published(2)
        pool.published(3)
        await asyncio.sleep(100)
        pool.check_acknowledged(1)
        assert state.acked_version == 3

    with_pool(body)


def test_a_pin_is_answered_with_its_version_and_a_late_answer_is_skipped() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        with pytest.raises(WaitTimeout, match="waited 5 s for generator 'g' to pin its weights"):
            await pool.pin(state, 5.0)
        second = asyncio.create_task(pool.pin(state, 5.0))
        await asyncio.sleep(0.1)
        assert link.sent == [Pin(), Pin()]
        link.inbox.put_nowait(Pinned(version=3))  # to the first, who has given up
        link.inbox.put_nowait(Pinned(version=4))
        assert await second == 4

    with_pool(body)


def test_a_generator_that_does_not_come_up_is_named() -> None:
    async def main() -> None:
        pool = GeneratorPool({"g": FakeLink()}, Changed(), asyncio.get_running_loop().time)
        with pytest.raises(WaitTimeout, match="waited 3 s for generator 'g' to load its model"):
            await pool.start(3.0)

    run_virtual(main())


def test_an_unexpected_message_is_an_error() -> None:
    async def main() -> None:
        link = FakeLink()
        pool = GeneratorPool({"g": link}, Changed(), asyncio.get_running_loop().time)
        link.inbox.put_nowait(Stop())
        with pytest.raises(HeadraceError, match="generator 'g' began with Stop"):
            await pool.start(1.0)
        link.inbox.put_nowait(ready())
        await pool.start(1.0)
        (reader,) = pool.readers()
        link.inbox.put_nowait(Pinned(version=1))  # nobody asked
        with pytest.raises(HeadraceError, match="generator 'g' sent an unexpected Pinned"):
            await reader

    run_virtual(main())


def test_after_stop_nothing_more_is_sent() -> None:
    async def body(pool: GeneratorPool, state: GeneratorState, link: FakeLink) -> None:
        pool.request(state, request("a"))
        await asyncio.sleep(0)
        pool.request(state, request("b"))
        pool.stop()
        pool.cancel(state, ["a"])
        await asyncio.sleep(0)
        assert [type(m) for m in link.sent] == [Submit, Stop]

    with_pool(body)
