"""Deterministic mode: what a request gets does not depend on its slot or on who decodes beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from headrace.engines.embedded import EmbeddedEngine
from headrace.models.random_model import save_random_model
from headrace.records import Completion, GenerationRequest


def asked(num_tokens: int, longest: int) -> list[GenerationRequest]:
    """Requests of mixed prefix, length and temperature that write ``num_tokens`` or a little more."""
    generator = np.random.default_rng(11)
    requests: list[GenerationRequest] = []
    while sum(r.max_tokens for r in requests) < num_tokens:
        requests.append(
            GenerationRequest(
                request_id=f"r{len(requests)}",
                prefix_ids=generator.integers(0, 96, generator.integers(1, 60)).astype(np.int32),
                seed=int(generator.integers(2**62)),
                temperature=float(generator.choice([1.0, 0.7])),
                max_tokens=int(generator.integers(longest // 4, longest)),
                stop_token_ids=(),
            )
        )
    return requests


def run(
    folder: str, requests: Sequence[GenerationRequest], *, num_slots: int, together: int, **options: Any
) -> dict[str, Completion]:
    """Keep ``together`` requests in flight over ``num_slots`` slots."""
    engine = EmbeddedEngine(folder, num_slots=num_slots, deterministic=True, **options)
    done: dict[str, Completion] = {}
    queue = list(requests)
    while queue or engine.num_active or engine.num_waiting:
        while queue and engine.num_active + engine.num_waiting < together:
            engine.submit(queue.pop())
        done |= {c.request_id: c for c in engine.step()}
    return done


def assert_identical(one: dict[str, Completion], other: dict[str, Completion]) -> None:
    assert one.keys() == other.keys()
    for name, completion in one.items():
        assert np.array_equal(completion.token_ids, other[name].token_ids), name
        assert np.array_equal(completion.logprob, other[name].logprob), name


@pytest.mark.slow
def test_50k_tokens_alone_and_among_63_others(tmp_path: Any) -> None:
    # One layer: the kernels see the shapes of the bundled model, and 50,000 single steps stay affordable.
    folder = save_random_model(str(tmp_path), num_hidden_layers=1)
    requests = asked(50_000, longest=440)
    alone = run(folder, requests, num_slots=1, together=1)
    assert sum(len(c.token_ids) for c in alone.values()) >= 50_000
    assert_identical(alone, run(folder, requests, num_slots=64, together=64))
    assert_identical(alone, run(folder, requests[::-1], num_slots=64, together=64))


@pytest.mark.parametrize("fused", [True, False])
def test_every_company_from_1_to_64(fused: bool, tmp_path: Any) -> None:
    folder = save_random_model(str(tmp_path))
    requests = asked(4_000, longest=70)
    whole = run(folder, requests, num_slots=64, together=64, fast_forward=fused)
    for num_slots, together in ((128, 100), (16, 13), (8, 8), (6, 5)):
        part = run(folder, requests, num_slots=num_slots, together=together, fast_forward=fused)
        assert_identical(whole, part)
    few = requests[:6]
    alone = run(folder, few, num_slots=1, together=1, fast_forward=fused)
    assert_identical(alone, {r.request_id: whole[r.request_id] for r in few})
