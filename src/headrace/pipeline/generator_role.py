"""The generator: one engine, driven by one thread. Weights are taken between two decode steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.errors import PublicationError, WaitTimeout
from headrace.pipeline.held_completions import HeldCompletions
from headrace.pipeline.messages import Acked, Cancel, Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.protocols import Engine, Transport, WeightReader
from headrace.records import WeightUpdate

IDLE_POLL_S = 0.002  # how soon an idle generator sees new weights or work


@dataclass(slots=True)
class _Meter:
    """Where the generator's time goes; see ``Usage``."""

    busy_s: float = 0.0
    wait_s: float = 0.0
    load_s: float = 0.0
    num_tokens: int = 0
    num_prefill_tokens: int = 0

    def usage(self) -> Usage:
        return Usage(
            busy_s=self.busy_s,
            wait_s=self.wait_s,
            load_s=self.load_s,
            num_tokens=self.num_tokens,
            num_prefill_tokens=self.num_prefill_tokens,
        )


class GeneratorRole:
    """Serves requests until told to stop. ``lineage`` is the trainer's; sequences of older ones are dropped.

    ``probe_limit`` is the largest difference of probe log-probabilities between trainer and engine that is accepted,
    in nats: beyond it the engine does not run the weights that were published, and the run stops.
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        controller: Transport,
        weights: WeightReader,
        *,
        lineage: int,
        timeout_s: float,
        probe_limit: float,
    ) -> None:
        self._make_engine = make_engine
        self._controller = controller
        self._weights = weights
        self._lineage = lineage
        self._timeout_s = timeout_s
        self._probe_limit = probe_limit
        self._meter = _Meter()
        self._version = -1
        self._pinned: set[str] = set()  # requests of evaluations: no part of what training costs

    def run(self) -> None:
        """Load, take the first weights, then serve."""
        self._engine = self._make_engine()
        self._engine.reset(self._lineage)
        self._held = HeldCompletions(self._engine.num_slots)
        self._take(self._first_weights())
        self._controller.send(
            GeneratorReady(
                num_slots=self._engine.num_slots,
                version=self._version,
                weight_sets=tuple(self._engine.weight_sets),
                batch_invariant=self._engine.batch_invariant,
            )
        )
        while self._serve_once():
            pass

    def _first_weights(self) -> WeightUpdate:
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            update = self._weights.newest(-1, self._lineage)
            if update is not None:
                return update
            time.sleep(IDLE_POLL_S)
        raise WaitTimeout(f"waited {self._timeout_s:g} s for the trainer to publish its first weights")

    def _serve_once(self) -> bool:
        """Messages, then weights, then one decode step (or a short wait). False when the role is to end."""
        while self._controller.poll(0.0):
            if not self._obey(self._controller.recv()):
                return False
        update = self._weights.newest(self._version, self._lineage)
        if update is not None:
            self._report()
            pause_s, error = self._take(update)
            self._controller.send(
                Acked(version=self._version, pause_s=pause_s, probe_error=error, usage=self._meter.usage())
            )
        if self._has_work():
            self._decode()
        if not self._has_work():
            self._report()
            started = time.perf_counter()
            self._controller.poll(IDLE_POLL_S)
            self._meter.wait_s += time.perf_counter() - started
        return True

    def _has_work(self) -> bool:
        return bool(self._engine.num_active or self._engine.num_waiting)

    def _obey(self, message: object) -> bool:
        match message:
            case Submit(requests=requests):
                for request in requests:
                    if request.weights == "pinned":
                        self._pinned.add(request.request_id)
                    else:
                        self._meter.num_prefill_tokens += len(request.prefix_ids)
                    self._engine.submit(request)
            case Cancel(request_ids=request_ids):
                self._pinned.difference_update(request_ids)
                for request_id in request_ids:
                    self._engine.cancel(request_id)
            case Pin():
                self._controller.send(Pinned(version=self._engine.pin()))
            case Stop():
                return False
            case _:
                raise TypeError(f"a generator does not know the message {type(message).__name__}")
        return True

    def _decode(self) -> None:
        started = time.perf_counter()
        completions = self._engine.step()
        now = time.perf_counter()
        self._meter.busy_s += now - started
        for completion in completions:
            if completion.request_id in self._pinned:
                self._pinned.remove(completion.request_id)
            else:
                self._meter.num_tokens += len(completion.token_ids)
        self._held.add(completions, now)
        if self._held.due(now, now - started):
            self._report()

    def _report(self) -> None:
        completions = self._held.take()
        if completions:
            self._controller.send(Finished(completions=completions, usage=self._meter.usage()))

    def _take(self, update: WeightUpdate) -> tuple[float, float]:
        """Load an update and prove it by its probe; returns (pause in seconds, largest probe error)."""
        started = time.perf_counter()
        self._engine.load_weights(update)
        error = self._probe_error(update)
        if not error <= self._probe_limit:
            raise PublicationError(
                f"the engine scores the probe sequences of version {update.version} {error:.3g} nats away from the "
                f"trainer, the limit is {self._probe_limit:g}: it does not run the weights that were published"
            )
        self._version = update.version
        pause_s = time.perf_counter() - started
        self._meter.load_s += pause_s
        return pause_s, error

    def _probe_error(self, update: WeightUpdate) -> float:
        if update.probe is None:
            return 0.0
        scores = self._engine.score(list(update.probe.token_ids))
        return max(
            float(np.abs(mine - theirs).max()) for mine, theirs in zip(scores, update.probe.logprob, strict=True)
        )
