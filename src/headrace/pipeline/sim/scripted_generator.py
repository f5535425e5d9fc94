"""A generator by script: it obeys ``pipeline.messages`` and computes when each token of a completion is sampled."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import numpy.typing as npt

from headrace.pipeline.messages import Acked, Cancel, Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.pipeline.seeds import derive_seed
from headrace.pipeline.sim.board import Board
from headrace.pipeline.sim.chance import Chance
from headrace.pipeline.sim.links import MemoryLink
from headrace.pipeline.sim.scenario import Scenario
from headrace.records import Completion, GenerationRequest, IntArray

EOS = 0


class ScriptedGenerator:
    """``num_slots`` sequences at a time, in order of submission. Tokens depend on a request's seed and number alone.

    The version of a token is the one this generator has at the moment the token is sampled; weights are taken some
    time after they were published, between two tokens of whatever runs.
    """

    def __init__(self, index: int, scenario: Scenario, board: Board, link: MemoryLink) -> None:
        self.name = f"generator-{index}"
        self._index, self._scenario, self._board, self._link = index, scenario, board, link
        self._chance = Chance(derive_seed(scenario.seed, self.name))
        self._takes: list[tuple[float, int]] = []  # (time, version taken), both rising
        self._pinned_version = -1
        self._slots = asyncio.Semaphore(scenario.num_slots)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._usage = Usage()
        self._num_requests = 0

    @property
    def version(self) -> int:
        return self._takes[-1][1]

    async def run(self) -> None:
        """Serve until told to stop, or until the scenario has this one die."""
        self._takes.append((self._now(), self._board.version))
        scenario = self._scenario
        self._link.send(
            GeneratorReady(
                num_slots=scenario.num_slots,
                version=self.version,
                weight_sets=("policy", "pinned"),
                batch_invariant=True,
            )
        )
        taking = asyncio.create_task(self._take_weights())
        try:
            async with asyncio.timeout(scenario.generator_dies_at_s if self._index == 0 else None):
                await self._serve()
        except TimeoutError:
            self._link.close()
        finally:
            for task in (taking, *self._running.values()):
                task.cancel()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _serve(self) -> None:
        while True:
            match await self._link.recv():
                case Submit(requests=requests):
                    for request in requests:
                        self._begin(request)
                case Cancel(request_ids=names):
                    for name in names:
                        if name in self._running:
                            self._running.pop(name).cancel()
                case Pin():
                    self._pinned_version = self.version
                    self._link.send(Pinned(version=self.version))
                case Stop():
                    return

    def _begin(self, request: GenerationRequest) -> None:
        self._num_requests += 1
        if self._index == 0 and self._num_requests == self._scenario.lost_completion:
            return
        if request.request_id in self._running:
            raise AssertionError(f"request {request.request_id} was submitted twice")
        self._running[request.request_id] = asyncio.create_task(self._sample(request))

    async def _sample(self, request: GenerationRequest) -> None:
        async with self._slots:
            ids = scripted_tokens(request, self._scenario)
            times = self._now() + self._token_times(request, len(ids))
            pinned = self._pinned_version
            await asyncio.sleep(float(times[-1]) - self._now())
        versions = self._versions_at(times) if request.weights == "policy" else np.full(len(ids), pinned)
        del self._running[request.request_id]
        self._usage = Usage(num_tokens=self._usage.num_tokens + len(ids), busy_s=self._now())
        completion = Completion(
            request_id=request.request_id,
            token_ids=ids,
            logprob=np.full(len(ids), -0.5, np.float32),
            policy_version=versions.astype(np.int32),
            finish_reason="stop" if ids[-1] == EOS else "length",
            lineage=request.lineage,
        )
        self._link.send(Finished(completions=(completion,), usage=self._usage))

    def _token_times(self, request: GenerationRequest, n: int) -> npt.NDArray[np.float64]:
        """Seconds from the start to each of n tokens."""
        steps = np.full(n, self._scenario.token_s)
        if self._chance.uniform("stall", request.request_id) < self._scenario.stall_prob:
            steps[int(self._chance.uniform("where", request.request_id) * n)] += self._scenario.stall_s
        return np.cumsum(steps)

    def _versions_at(self, times: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        taken_at, versions = zip(*self._takes, strict=True)
        # 'left': a token sampled at the very moment of a take still comes from the weights before it.
        return np.asarray(versions)[np.maximum(np.searchsorted(taken_at, times, side="left") - 1, 0)]

    async def _take_weights(self) -> None:
        while True:
            ticket = self._board.changed.ticket()
            if self._board.version > self.version and not self._deaf(self._board.version):
                delay = self._chance.delay(self._scenario.take_delay(self._index), "take", self._board.version)
                await asyncio.sleep(delay)
                self._takes.append((self._now(), self._board.version))
                self._link.send(Acked(version=self.version, pause_s=0.0, probe_error=0.0, usage=self._usage))
            else:
                await ticket.wait()

    def _deaf(self, version: int) -> bool:
        deaf_from = self._scenario.deaf_from
        return self._index == 0 and deaf_from is not None and version >= deaf_from


def scripted_tokens(request: GenerationRequest, scenario: Scenario) -> IntArray:
    """What a request's seed samples: letters, and the end token unless the budget comes first.

    Later requests of an attempt have scripts of their own.
    """
    call = int(request.request_id.rpartition("/")[2])
    seed = derive_seed(request.seed, call) if call else request.seed
    chance = Chance(seed)
    length = max(1, round(scenario.length_median * math.exp(scenario.length_sigma * chance.normal("length"))))
    n = min(length, request.max_tokens)
    ids = np.random.default_rng(seed).integers(1, 10, n).astype(np.int32)
    if length <= request.max_tokens:
        ids[-1] = EOS
    return ids
