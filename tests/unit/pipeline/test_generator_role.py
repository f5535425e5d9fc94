"""The generator's role over a scripted engine: what it says it has spent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from headrace.engines.scripted import ScriptedEngine
from headrace.pipeline.generator_role import GeneratorRole
from headrace.pipeline.messages import Cancel, Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.records import GenerationRequest, WeightSet, WeightUpdate
from headrace.transports.channel import Channel, pair


class OneUpdate:
    """A weight reader with version 0 and nothing after it."""

    def newest(self, have: int, lineage: int = 0) -> WeightUpdate | None:
        if have >= 0:
            return None
        return WeightUpdate(lineage=0, version=0, kind="full", specs=(), buffer=np.zeros(0, np.uint8))


def request(name: str, weights: WeightSet, prompt: int, new: int) -> GenerationRequest:
    return GenerationRequest(
        request_id=name,
        prefix_ids=np.arange(prompt, dtype=np.int32),
        seed=1,
        temperature=1.0,
        max_tokens=new,
        stop_token_ids=(),
        weights=weights,
    )


@contextlib.contextmanager
def serving(num_slots: int) -> Iterator[Channel]:
    """The controller's end of a generator that has loaded."""
    ours, theirs = pair("controller", "generator")
    role = GeneratorRole(
        lambda: ScriptedEngine(num_slots=num_slots, max_len=10**7),
        theirs,
        OneUpdate(),
        lineage=0,
        timeout_s=5.0,
        probe_limit=1e-3,
    )
    thread = threading.Thread(target=role.run, daemon=True)
    thread.start()
    assert isinstance(ours.recv(5.0), GeneratorReady)
    yield ours
    ours.send(Stop())
    thread.join(5.0)
    assert not thread.is_alive()


def finished(channel: Channel) -> Finished:
    message = channel.recv(5.0)
    assert isinstance(message, Finished)
    return message


def test_tokens_of_an_evaluation_are_no_cost_of_training() -> None:
    with serving(num_slots=4) as ours:
        ours.send(Pin())
        assert isinstance(ours.recv(5.0), Pinned)
        ours.send(Submit(requests=(request("train", "policy", 3, 5), request("eval", "pinned", 7, 11))))
        ended: list[str] = []
        usage = Usage()
        while len(ended) < 2:
            message = finished(ours)
            ended += [c.request_id for c in message.completions]
            usage = message.usage
    assert sorted(ended) == ["eval", "train"]
    # 5 new tokens behind a prompt of 3 were training; the evaluation's 11 behind 7 were not.
    assert (usage.num_tokens, usage.num_prefill_tokens) == (5, 3)


def test_completions_travel_together_and_at_once_when_the_engine_runs_dry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pipeline.held_completions.HOLD_S", 1000.0)
    with serving(num_slots=64) as ours:
        ours.send(Submit(requests=(request("short", "policy", 3, 2), request("long", "policy", 3, 9))))
        assert [c.request_id for c in finished(ours).completions] == ["short", "long"]


def test_what_is_held_goes_out_when_the_rest_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pipeline.held_completions.HOLD_S", 1000.0)
    with serving(num_slots=64) as ours:
        ours.send(Submit(requests=(request("short", "policy", 3, 2), request("endless", "policy", 3, 10**6))))
        assert not ours.poll(0.2)
        ours.send(Cancel(request_ids=("endless",)))
        assert [c.request_id for c in finished(ours).completions] == ["short"]
