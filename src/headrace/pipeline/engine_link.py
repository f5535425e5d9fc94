"""An engine in this very process behind a generator's link: the pipeline's sampling without a generator process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from headrace.pipeline.messages import Cancel, Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.protocols import Engine


class EngineLink:
    """A ``Link`` for a ``GeneratorPool``; the weights stay what the engine has. ``make_engine`` runs in its thread.

    One thread alone touches the engine, and messages wait until it is between two decode steps.
    """

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        self._make_engine = make_engine
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._engine: Engine | None = None
        self._asked: deque[Any] = deque()
        self._woken = asyncio.Event()
        self._answers: deque[Any] = deque()

    def send(self, message: Any) -> None:
        self._asked.append(message)
        self._woken.set()

    async def recv(self) -> Any:
        """``GeneratorReady`` first; then what ends, one message a decode step that ended something."""
        if self._engine is None:
            self._engine = await self._run(self._make_engine)
            return _ready(self._engine)
        while not self._answers:
            self._woken.clear()
            asked = [self._asked.popleft() for _ in range(len(self._asked))]
            busy, answers = await self._run(partial(self._advance, asked))
            self._answers.extend(answers)
            if not (busy or answers or self._asked):
                await self._woken.wait()
        return self._answers.popleft()

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _advance(self, asked: list[Any]) -> tuple[bool, list[Any]]:
        """Obey, then decode a token for every sequence; returns whether there is more to do, and answers."""
        engine, answers = self._engine, list[Any]()
        assert engine is not None
        for message in asked:
            match message:
                case Submit(requests=requests):
                    for request in requests:
                        engine.submit(request)
                case Cancel(request_ids=request_ids):
                    for request_id in request_ids:
                        engine.cancel(request_id)
                case Pin():
                    answers.append(Pinned(version=engine.pin()))
                case Stop():
                    pass
                case _:
                    raise TypeError(f"an engine does not know the message {type(message).__name__}")
        if engine.num_active or engine.num_waiting:
            completions = engine.step()
            if completions:
                answers.append(Finished(completions=tuple(completions), usage=Usage()))
        return bool(engine.num_active or engine.num_waiting), answers

    def close(self) -> None:
        self._thread.shutdown()


def _ready(engine: Engine) -> GeneratorReady:
    return GeneratorReady(
        num_slots=engine.num_slots,
        version=0,
        weight_sets=tuple(engine.weight_sets),
        batch_invariant=engine.batch_invariant,
    )
