"""Verifier processes behind one coroutine: ``await pool.judge(completion, row)``.

A time limit that the judged code enforces on itself can be dodged by it; here the controller kills the process from
outside, starts another one and tries the sample once more. A sample that ends its process twice is *wrong* (its gold
passed the same verifier before the run); a verifier that raises has *failed*, which is an error and not a reward.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import VerifierBroken
from headrace.records import Verdict
from headrace.verifiers.pool_limits import over_limit, trim
from headrace.verifiers.pool_stats import PoolStats
from headrace.verifiers.scratch import sweep
from headrace.verifiers.spec import VerifierSpec
from headrace.verifiers.worker_process import WorkerGone, WorkerProcess

MAX_BATCH = 64
BATCH_S = 0.02
"""A batch is so long that it takes about this time: short enough to share out work, long enough to save messages."""

MAX_ATTEMPTS = 2
MAX_FAILED_STARTS = 3


@dataclass(slots=True, eq=False)
class _Job:
    payload: bytes  # pickled (completion, row)
    limit_s: float  # after which its process is ended
    future: asyncio.Future[Verdict]
    attempts: int = 0  # times it was the item at which a process ended
    unread: int = 0  # times a process ended with it before anything was judged
    alone: bool = False  # a process ended with it: from now on it is nobody else's company


class VerifierPool:
    """``num_workers`` processes with one verifier each. Belongs to one event loop.

    ``max_pending`` judgements may wait at a time; further callers wait their turn. ``log_path`` takes what verifiers
    print (default: our standard error) and is emptied when it grows beyond 64 MB. A process that holds more than
    ``memory_limit_mb`` in RAM is ended like one that takes too long. Use as ``async with``, or call ``start`` and
    ``close``.
    """

    def __init__(
        self,
        spec: VerifierSpec,
        num_workers: int = 1,
        time_limit_s: float = 5.0,
        *,
        max_pending: int = 4096,
        memory_limit_mb: int = 8192,
        log_path: str | None = None,
    ) -> None:
        self.spec, self.num_workers, self.time_limit_s = spec, num_workers, time_limit_s
        self.memory_limit_mb = memory_limit_mb
        self.stats = PoolStats()
        self._log_path = log_path
        self._jobs: deque[_Job] = deque()
        self._idle: dict[WorkerProcess, asyncio.Event] = {}
        self._handed: dict[WorkerProcess, dict[int, _Job]] = {}
        self._processes: set[WorkerProcess] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._room = asyncio.Semaphore(max_pending)
        self._dispatching = False
        self._broken: str | None = None
        self._closed = False

    async def __aenter__(self) -> VerifierPool:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start all processes. Raises ``VerifierBroken`` with the reason when the verifier cannot be built."""
        sweep()
        first = await asyncio.gather(*(self._launch() for _ in range(self.num_workers)), return_exceptions=True)
        for failure in first:
            if isinstance(failure, BaseException):
                await self.close()
                raise VerifierBroken(f"verifier '{self.spec.name}' does not start: {failure}") from None
        workers = [worker for worker in first if isinstance(worker, WorkerProcess)]
        self._tasks = [asyncio.create_task(self._serve(worker)) for worker in workers]
        self._tasks.append(asyncio.create_task(self._watch()))

    async def judge(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        """The verdict on one completion of a row. Never raises for what a completion or verifier does."""
        async with self._room:
            if self._broken is not None:
                return Verdict(reward=None, error=self._broken)
            if self._closed or not self._tasks:
                raise VerifierBroken(f"verifier pool '{self.spec.name}' is not running")
            try:
                payload = pickle.dumps((completion, dict(row)), protocol=pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # pickling may fail in any way the row's values like
                return Verdict(reward=None, error=f"the row cannot be sent to a verifier process: {error}")
            job = _Job(
                payload, self.spec.outer_limit_s(row, self.time_limit_s), asyncio.get_running_loop().create_future()
            )
            self._jobs.append(job)
            self._dispatch_soon()
            verdict = await job.future
        self.stats.count(verdict)
        return verdict

    async def close(self) -> None:
        """End every process, wait for them, cancel what is pending. May be called twice."""
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self._processes:
            worker.kill()
        for job in [*self._jobs, *(job for jobs in self._handed.values() for job in jobs.values())]:
            job.future.cancel()
        self._processes.clear()
        self._jobs.clear()
        self._handed.clear()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        return [worker.process.pid for worker in self._processes if worker.process.poll() is None]

    async def _launch(self) -> WorkerProcess:
        worker = await WorkerProcess.start(self.spec, self._log_path)
        if self._closed:
            worker.kill()
            raise asyncio.CancelledError
        self._processes.add(worker)
        self._handed[worker] = {}
        return worker

    async def _serve(self, worker: WorkerProcess) -> None:
        """Keep one place of the pool occupied: take verdicts, replace the process when it ends."""
        while True:
            try:
                await self._exchange(worker)
            except WorkerGone:
                await self._bury(worker)
            replacement = await self._replace()
            if replacement is None:
                return
            worker = replacement

    async def _exchange(self, worker: WorkerProcess) -> None:
        jobs = self._handed[worker]
        while True:
            woken = self._idle[worker] = asyncio.Event()
            self._dispatch_soon()
            await woken.wait()  # an idle process that ends is noticed with its next batch
            while jobs:
                for item, verdict in await worker.verdicts():
                    job = jobs.pop(item, None)
                    if job is None:
                        raise WorkerGone("it judged what it was not given")
                    if not job.future.done():
                        job.future.set_result(verdict)

    def _dispatch_soon(self) -> None:
        """Hand out jobs after the running callbacks, so that jobs submitted together travel together."""
        if not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatching = False
        while self._jobs and self._idle:
            worker, woken = self._idle.popitem()
            share = -(-len(self._jobs) // (len(self._idle) + 1))
            size = min(share, MAX_BATCH, max(1, int(BATCH_S / max(self.stats.typical_s, 1e-6))))
            batch = self._handed[worker]
            while self._jobs and len(batch) < size:
                if batch and self._jobs[0].alone:
                    break
                job = self._jobs.popleft()
                if not job.future.done():
                    batch[len(batch)] = job
                    size = 1 if job.alone else size
            if not batch:
                self._idle[worker] = woken
                return
            worker.send_batch([job.payload for job in batch.values()])
            woken.set()

    async def _watch(self) -> None:
        """Kill every process that takes longer or more memory than the limit; keep the log short."""
        while True:
            await asyncio.sleep(min(0.1, max(0.01, self.time_limit_s / 20)))
            for worker, jobs in list(self._handed.items()):
                worker.hang_up_if_ended()
                if jobs and not worker.killed_for:
                    limits_s = {item: job.limit_s for item, job in jobs.items()}
                    worker.killed_for = over_limit(worker, limits_s, self.memory_limit_mb)
                    if worker.killed_for:
                        worker.signal_kill()
            if self._log_path is not None:
                trim(self._log_path)

    async def _bury(self, worker: WorkerProcess) -> None:
        """Put the ended process's jobs back, or give a verdict on the one that has ended two."""
        worker.signal_kill()
        while worker.process.poll() is None:
            await asyncio.sleep(0.002)
        jobs, current = self._handed.pop(worker), worker.current
        self._idle.pop(worker, None)
        self._processes.discard(worker)
        code = worker.kill()
        culprit = jobs.get(current)
        self.stats.count_end(worker.killed_for)
        for job in reversed(jobs.values()):
            job.alone = True
            job.attempts += job is culprit
            job.unread += culprit is None
            if job.attempts < MAX_ATTEMPTS and job.unread < MAX_FAILED_STARTS:
                self._jobs.appendleft(job)
            elif not job.future.done():
                unread = Verdict(reward=None, error="verifier processes keep ending before they judge anything")
                job.future.set_result(self._ended_it_twice(worker, job, code) if job is culprit else unread)
        self._dispatch_soon()

    def _ended_it_twice(self, worker: WorkerProcess, job: _Job, code: int) -> Verdict:
        if worker.killed_for == "time":
            reason = f"time-out: judging took more than {job.limit_s:g} s, twice"
            return Verdict(reward=0.0, reason=reason, time_s=job.limit_s)
        if worker.killed_for == "memory":
            return Verdict(reward=0.0, reason=f"memory: judging took more than {self.memory_limit_mb} MB, twice")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Verdict(reward=0.0, reason=f"the verifier process ended while judging it, twice ({how})")

    async def _replace(self) -> WorkerProcess | None:
        reason = ""
        for attempt in range(MAX_FAILED_STARTS):
            try:
                return await self._launch()
            except WorkerGone as gone:
                reason = str(gone)
                await asyncio.sleep(0.1 * 2**attempt)
        self._fail(f"verifier '{self.spec.name}' could not be started again: {reason}")
        return None

    def _fail(self, reason: str) -> None:
        """Without a process left, every judgement is an error; the run's limit on errors then ends it."""
        if self._processes:
            return
        self._broken = reason
        while self._jobs:
            job = self._jobs.popleft()
            if not job.future.done():
                job.future.set_result(Verdict(reward=None, error=reason))
