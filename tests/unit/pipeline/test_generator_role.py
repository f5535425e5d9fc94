"""The generator's role over a scripted engine: what it says it has spent."""

from __future__ import annotations

import threading

import numpy as np

from headrace.engines.scripted import ScriptedEngine
from headrace.pipeline.generator_role import GeneratorRole
from headrace.pipeline.messages import Finished, GeneratorReady, Pin, Pinned, Stop, Submit, Usage
from headrace.records import GenerationRequest, WeightSet, WeightUpdate
from headrace.transports.channel import pair


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


def test_tokens_of_an_evaluation_are_no_cost_of_training() -> None:
    ours, theirs = pair("controller", "generator")
    role = GeneratorRole(
        lambda: ScriptedEngine(num_slots=4), theirs, OneUpdate(), lineage=0, timeout_s=5.0, probe_limit=1e-3
    )
    thread = threading.Thread(target=role.run)
    thread.start()
    assert isinstance(ours.recv(5.0), GeneratorReady)
    ours.send(Pin())
    assert isinstance(ours.recv(5.0), Pinned)
    ours.send(Submit(requests=(request("train", "policy", 3, 5), request("eval", "pinned", 7, 11))))
    ended: list[str] = []
    usage = Usage()
    while len(ended) < 2:
        message = ours.recv(5.0)
        assert isinstance(message, Finished)
        ended += [c.request_id for c in message.completions]
        usage = message.usage
    ours.send(Stop())
    thread.join(5.0)
    assert sorted(ended) == ["eval", "train"]
    # 5 new tokens behind a prompt of 3 were training; the evaluation's 11 behind 7 were not.
    assert (usage.num_tokens, usage.num_prefill_tokens) == (5, 3)
