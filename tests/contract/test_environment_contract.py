"""What every environment promises (protocols.Environment), over real engines behind the pipeline's own sampler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headrace.curation.interruption import Interruption
from headrace.engines.embedded import EmbeddedEngine
from headrace.engines.scripted import ScriptedEngine
from headrace.models.random_model import save_random_model
from headrace.pipeline.engine_link import EngineLink
from headrace.pipeline.generator_pool import GeneratorPool, GeneratorState, PooledSampler
from headrace.pipeline.signal import Changed
from headrace.pipeline.tasks import cancel
from headrace.protocols import Environment, Sampler
from headrace.records import Completion, GenerationRequest, IntArray, Prompt, Rollout, WeightUpdate, check_rollout
from headrace.tasks.interrupted import Interrupted
from headrace.tasks.single_turn import SingleTurn

VOCAB, LIMIT, STOPS = 96, 24, (0, 1, 2, 3)
PROMPT = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([5, 6, 7], np.int32), row={})
RULE = Interruption(low=3, high=9, injected_ids=(40, 41, 42), closing_ids=(), answer_tokens=6)
ENVIRONMENTS: dict[str, Environment] = {"single turn": SingleTurn(), "interrupted": Interrupted(RULE)}
ENGINES: dict[str, dict[str, Any] | None] = {"fast": {}, "deterministic": {"deterministic": True}, "scripted": None}

Body = Callable[["Bench"], Awaitable[Any]]


class Bench:
    """An engine, the pool it belongs to, and samplers for attempts by seed."""

    def __init__(self, engine: Any, pool: GeneratorPool) -> None:
        self.engine, self.pool = engine, pool
        self.state: GeneratorState = pool.states["engine"]

    def sampler(self, seed: int, *, temperature: float = 1.0, stop: tuple[int, ...] = STOPS) -> PooledSampler:
        return PooledSampler(
            self.pool,
            self.state,
            request_id=f"train-{seed}-0",
            seed=seed,
            temperature=temperature,
            max_tokens=LIMIT,
            stop_token_ids=stop,
            weights="policy",
            lineage=0,
        )

    async def attempt(self, environment: Environment, seed: int, **options: Any) -> Rollout:
        sampler = self.sampler(seed, **options)
        (rollout,) = await environment.run(PROMPT, sampler, group_id=f"train-{seed}", seed=seed)
        return check_rollout(rollout)

    async def attempts(self, environment: Environment, seeds: range, **options: Any) -> list[Rollout]:
        return list(await asyncio.gather(*(self.attempt(environment, seed, **options) for seed in seeds)))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_random_model(str(tmp_path_factory.mktemp("model")), max_position_embeddings=64)


@pytest.fixture(params=list(ENVIRONMENTS))
def environment(request: pytest.FixtureRequest) -> Environment:
    return ENVIRONMENTS[request.param]


@pytest.fixture(params=list(ENGINES))
def bench(request: pytest.FixtureRequest, folder: str) -> Callable[[Body], Any]:
    options = ENGINES[request.param]

    def make() -> Any:
        if options is None:
            return ScriptedEngine(num_slots=4, vocab_size=VOCAB, max_len=64, length_of=_until)
        torch.set_num_threads(1)
        return EmbeddedEngine(folder, num_slots=4, **options)

    def run(body: Body) -> Any:
        return asyncio.run(_with_bench(make, body))

    return run


def _until(request: GenerationRequest) -> int:
    """Scripted sequences end at a place of their own, 4 to 27 tokens behind the prompt, however they are cut."""
    return max(1, len(PROMPT.token_ids) + 4 + request.seed % 24 - len(request.prefix_ids))


async def _with_bench(make: Callable[[], Any], body: Body) -> Any:
    engine = make()
    link = EngineLink(lambda: engine)
    pool = GeneratorPool({"engine": link}, Changed(), lambda: 0.0)
    await pool.start(10.0)
    readers = pool.readers()
    work = asyncio.ensure_future(body(Bench(engine, pool)))
    try:
        await asyncio.wait([work, *readers], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert work.done(), [r.exception() for r in readers if r.done()]
        return work.result()
    finally:
        await cancel([work, *readers])
        link.close()


def sampled(rollout: Rollout) -> IntArray:
    return rollout.token_ids[len(PROMPT.token_ids) :]


def test_a_rollout_begins_with_its_prompt_and_records_how_it_was_sampled(
    environment: Environment, bench: Callable[[Body], Any]
) -> None:
    rollouts = bench(lambda b: b.attempts(environment, range(30), temperature=0.75))
    assert {r.finish_reason for r in rollouts} > {"stop"}
    for seed, rollout in enumerate(rollouts):
        assert rollout.token_ids[:3].tolist() == [5, 6, 7]
        assert not rollout.trainable[:3].any()
        assert rollout.trainable[3]
        assert 1 <= len(sampled(rollout)) <= LIMIT
        assert (rollout.seed, rollout.temperature, rollout.group_id) == (seed, 0.75, f"train-{seed}")
        assert (rollout.policy_version[rollout.trainable] == 0).all()
        ended = int(rollout.token_ids[-1]) in STOPS
        assert ended == (rollout.finish_reason in ("stop", "interrupted"))


def test_a_reissued_attempt_is_the_same_rollout(environment: Environment, bench: Callable[[Body], Any]) -> None:
    """Whoever shares the batch: noise depends on seed and position alone."""

    async def body(b: Bench) -> tuple[list[Rollout], list[Rollout]]:
        return await b.attempts(environment, range(12)), [await b.attempt(environment, s) for s in range(12)]

    for one, other in zip(*bench(body), strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_array_equal(one.trainable, other.trainable)
        np.testing.assert_allclose(one.behaviour_logprob, other.behaviour_logprob, atol=1e-5)


def test_log_probabilities_are_those_of_one_forward_over_the_whole_sequence(
    environment: Environment, bench: Callable[[Body], Any]
) -> None:
    async def body(b: Bench) -> tuple[list[Rollout], list[Any]]:
        rollouts = await b.attempts(environment, range(30))
        return rollouts, b.engine.score([r.token_ids for r in rollouts])

    rollouts, scores = bench(body)
    for rollout, score in zip(rollouts, scores, strict=True):
        mask = rollout.trainable[1:]
        np.testing.assert_allclose(rollout.behaviour_logprob[1:][mask], score[mask], atol=1e-4)


def test_cancelled_attempts_leave_nothing_behind(environment: Environment, bench: Callable[[Body], Any]) -> None:
    """At whatever moment: waiting, in the first call, between two, or in the second."""

    async def body(b: Bench) -> None:
        for turns in range(1, 60, 3):
            seeds = range(6 * turns, 6 * turns + 6)
            tasks = [asyncio.create_task(b.attempt(environment, s, stop=())) for s in seeds]
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            await cancel(tasks)  # type: ignore[arg-type]
            b.pool.release(b.state, [f"train-{s}-0" for s in seeds])
            assert (b.state.owed, b.state.num_policy) == ([], 0)
            # One token more: by then the engine has obeyed the cancellations, and has nothing else to do.
            await b.sampler(10_000 + turns).generate(PROMPT.token_ids, max_tokens=1)
            assert (b.engine.num_active, b.engine.num_waiting) == (0, 0)

    bench(body)


def test_two_calls_sample_what_one_call_samples(bench: Callable[[Body], Any]) -> None:
    """The second call goes on at its own positions of the noise: cutting a completion does not change it."""

    async def body(b: Bench) -> None:
        for seed in range(16):
            whole = await b.sampler(seed).generate(PROMPT.token_ids, max_tokens=20)
            parts = b.sampler(seed)
            first = await parts.generate(PROMPT.token_ids, max_tokens=4)
            if first.finish_reason == "stop":
                continue
            prefix = np.concatenate([PROMPT.token_ids, first.token_ids]).astype(np.int32)
            second = await parts.generate(prefix, max_tokens=16)
            assert [*first.token_ids, *second.token_ids] == whole.token_ids.tolist()
            assert second.finish_reason == whole.finish_reason
            np.testing.assert_allclose(np.concatenate([first.logprob, second.logprob]), whole.logprob, atol=1e-5)

    bench(body)


def test_an_interruption_stands_where_it_was_drawn_and_is_masked(bench: Callable[[Body], Any]) -> None:
    rollouts: list[Rollout] = bench(lambda b: b.attempts(Interrupted(RULE), range(40)))
    cut = [r for r in rollouts if not r.trainable[3:].all()]
    assert len(cut) > 10
    for rollout in cut:
        budget = RULE.budget(rollout.seed)
        put_in = np.flatnonzero(~rollout.trainable[3:])
        assert put_in.tolist() == [budget, budget + 1, budget + 2]
        assert sampled(rollout)[put_in].tolist() == [40, 41, 42]
        assert (rollout.policy_version[3:][put_in] == -1).all()
        answer = sampled(rollout)[budget + 3 :]
        assert 1 <= len(answer) <= 6
        assert rollout.finish_reason == ("interrupted" if int(answer[-1]) in STOPS else "length")
    for rollout in rollouts:
        if rollout.trainable[3:].all():
            assert len(sampled(rollout)) <= RULE.budget(rollout.seed)
            assert rollout.finish_reason == "stop"


class Publishing:
    """A sampler between whose calls the weights are replaced."""

    def __init__(self, sampler: Sampler, engine: Any) -> None:
        self._sampler, self._engine, self.temperature = sampler, engine, sampler.temperature

    async def generate(self, prefix_ids: IntArray, **options: Any) -> Completion:
        completion = await self._sampler.generate(prefix_ids, **options)
        self._engine.load_weights(_update(self._engine.version + 1))
        return completion


def _update(version: int) -> WeightUpdate:
    return WeightUpdate(lineage=0, version=version, kind="full", specs=(), buffer=np.zeros(1, np.uint8))


def test_weights_that_come_between_the_calls_sample_the_answer_alone(folder: str) -> None:
    always = Interrupted(replace(RULE, low=5, high=5))

    async def body(b: Bench) -> Rollout:
        (rollout,) = await always.run(PROMPT, Publishing(b.sampler(7, stop=()), b.engine), group_id="g", seed=7)
        return check_rollout(rollout)

    rollout: Rollout = asyncio.run(_with_bench(lambda: ScriptedEngine(num_slots=1), body))
    assert rollout.policy_version.tolist() == [-1] * 3 + [0] * 5 + [-1] * 3 + [1] * 6
    assert rollout.oldest_version == 0
    assert rollout.finish_reason == "length"
