"""What every engine promises (protocols.Engine), over each implementation and each of the embedded engine's paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from headrace.engines.embedded import EmbeddedEngine
from headrace.engines.scripted import ScriptedEngine
from headrace.errors import DataError, HeadraceError, PublicationError
from headrace.models.random_model import random_model, save_random_model
from headrace.protocols import Engine
from headrace.records import Completion, GenerationRequest, TensorSpec, WeightUpdate

MakeEngine = Callable[..., Any]
VARIANTS = {
    "fast": {"fast_forward": True},
    "module": {"fast_forward": False},
    "deterministic": {"deterministic": True},
    "scripted": None,
}
VOCAB, CONTEXT = 96, 64


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_random_model(str(tmp_path_factory.mktemp("model")), max_position_embeddings=CONTEXT)


@pytest.fixture(params=list(VARIANTS))
def make(request: pytest.FixtureRequest, folder: str) -> MakeEngine:
    options = VARIANTS[request.param]

    def build(num_slots: int = 4) -> Any:
        if options is None:
            return ScriptedEngine(num_slots=num_slots, vocab_size=VOCAB, max_len=CONTEXT)
        return EmbeddedEngine(folder, num_slots=num_slots, **options)

    return build


def ask(name: str, **changes: Any) -> GenerationRequest:
    fields: dict[str, Any] = {
        "request_id": name,
        "prefix_ids": np.array([5, 6, 7], np.int32),
        "seed": 11,
        "temperature": 1.0,
        "max_tokens": 6,
        "stop_token_ids": (),
    }
    return GenerationRequest(**{**fields, **changes})


def update(version: int, *, seed: int = 1, lineage: int = 0) -> WeightUpdate:
    """The weights of another random model of the same shape."""
    specs, parts, offset = [], [], 0
    for name, parameter in random_model(seed=seed, max_position_embeddings=CONTEXT).named_parameters():
        raw = parameter.detach().numpy().reshape(-1).view(np.uint8)
        specs.append(
            TensorSpec(name=name, dtype="float32", shape=tuple(parameter.shape), offset=offset, nbytes=len(raw))
        )
        parts.append(raw)
        offset += len(raw)
    return WeightUpdate(lineage=lineage, version=version, kind="full", specs=tuple(specs), buffer=np.concatenate(parts))


def drain(engine: Engine, limit: int = 1000) -> dict[str, Completion]:
    done: dict[str, Completion] = {}
    for _ in range(limit):
        if not engine.num_active and not engine.num_waiting:
            return done
        for completion in engine.step():
            assert completion.request_id not in done
            done[completion.request_id] = completion
    raise AssertionError(f"{engine.num_active} sequences still run after {limit} steps")


def same(a: Completion, b: Completion) -> bool:
    return np.array_equal(a.token_ids, b.token_ids) and np.allclose(a.logprob, b.logprob, atol=1e-5)


def test_is_an_engine(make: MakeEngine) -> None:
    engine = make()
    assert isinstance(engine, Engine)
    assert engine.weight_sets == ("policy", "pinned")
    assert engine.step() == []


def test_a_request_runs_to_its_length(make: MakeEngine) -> None:
    engine = make()
    engine.submit(ask("a", max_tokens=3))
    assert (engine.num_waiting, engine.num_active) == (1, 0)
    assert engine.step() == []
    assert (engine.num_waiting, engine.num_active) == (0, 1)
    assert engine.step() == []
    (done,) = engine.step()
    assert (engine.num_waiting, engine.num_active) == (0, 0)
    assert (done.request_id, done.finish_reason, done.lineage) == ("a", "length", 0)
    assert done.token_ids.dtype == np.int32
    assert done.logprob.dtype == np.float32
    assert len(done.token_ids) == len(done.logprob) == 3
    assert done.policy_version.tolist() == [0, 0, 0]
    assert (done.logprob <= 0).all()


def test_a_stop_token_is_the_last_and_is_included(make: MakeEngine) -> None:
    engine = make()
    stops = tuple(range(0, VOCAB, 3))
    for i in range(20):
        engine.submit(ask(f"r{i}", seed=i, max_tokens=40, stop_token_ids=stops))
    done = drain(engine)
    stopped = [c for c in done.values() if c.finish_reason == "stop"]
    assert len(stopped) >= 15
    for completion in stopped:
        assert completion.token_ids[-1] in stops
        assert not np.isin(completion.token_ids[:-1], stops).any()
    assert len({len(c.token_ids) for c in stopped}) > 1


def test_more_requests_than_slots(make: MakeEngine) -> None:
    engine = make(num_slots=3)
    for i in range(11):
        engine.submit(ask(f"r{i}", seed=i, max_tokens=1 + i % 4))
    seen, most = 0, 0
    while engine.num_active or engine.num_waiting:
        ended = engine.step()
        most = max(most, engine.num_active + len(ended))
        seen += len(ended)
    assert (seen, most) == (11, 3)


def test_a_sample_depends_on_the_seed_and_not_on_the_company(make: MakeEngine) -> None:
    alone = make()
    alone.submit(ask("x", seed=77, max_tokens=20))
    expected = drain(alone)["x"]
    crowd = make(num_slots=3)
    for i in range(5):
        crowd.submit(ask(f"r{i}", seed=i, prefix_ids=np.arange(1 + 3 * i, dtype=np.int32), max_tokens=4 + i))
    crowd.submit(ask("x", seed=77, max_tokens=20))
    done = drain(crowd)
    assert same(done["x"], expected)
    if crowd.batch_invariant:
        assert np.array_equal(done["x"].logprob, expected.logprob)
    assert len({tuple(c.token_ids[:4]) for c in done.values()}) > 1


def test_cancel_frees_the_slot(make: MakeEngine) -> None:
    engine = make(num_slots=1)
    engine.submit(ask("running", max_tokens=30))
    engine.submit(ask("queued"))
    engine.submit(ask("last", max_tokens=2))
    engine.step()
    engine.cancel("nobody")
    engine.cancel("running")
    assert (engine.num_active, engine.num_waiting) == (0, 2)
    engine.cancel("queued")
    engine.step()
    assert engine.num_active == 1
    assert set(drain(engine)) == {"last"}
    engine.submit(ask("running"))  # the name is free again
    assert set(drain(engine)) == {"running"}


def test_versions_are_exact_when_weights_change_mid_sequence(make: MakeEngine) -> None:
    engine = make(num_slots=2)
    engine.load_weights(update(3, seed=0))
    engine.submit(ask("long", max_tokens=5))
    engine.submit(ask("short", max_tokens=2))
    engine.submit(ask("late", max_tokens=2))
    done = {c.request_id: c for _ in range(2) for c in engine.step()}
    engine.load_weights(update(4))
    done |= drain(engine)
    assert done["long"].policy_version.tolist() == [3, 3, 4, 4, 4]
    assert done["short"].policy_version.tolist() == [3, 3]
    assert done["late"].policy_version.tolist() == [4, 4]


def test_pinned_sequences_do_not_see_new_weights(make: MakeEngine) -> None:
    still = make()
    still.submit(ask("eval", seed=5, max_tokens=12))
    expected = drain(still)["eval"]
    engine = make()
    engine.load_weights(update(7, seed=0))
    assert engine.pin() == 7
    engine.submit(ask("eval", seed=5, max_tokens=12, weights="pinned"))
    engine.submit(ask("train", seed=6, max_tokens=12))
    for version in range(8, 12):
        engine.step()
        engine.load_weights(update(version, seed=version))
    done = drain(engine)
    assert done["eval"].policy_version.tolist() == [7] * 12
    assert same(done["eval"], expected)
    assert done["train"].policy_version[-1] == 11
    assert engine.pin() == 11
    engine.submit(ask("eval", seed=5, max_tokens=2, weights="pinned"))
    assert drain(engine)["eval"].policy_version.tolist() == [11, 11]


def test_pinning_waits_for_the_pinned_sequences(make: MakeEngine) -> None:
    engine = make()
    with pytest.raises(DataError, match="pinned"):
        engine.submit(ask("early", weights="pinned"))
    engine.pin()
    engine.submit(ask("eval", weights="pinned"))
    with pytest.raises(HeadraceError, match="pinned"):
        engine.pin()
    drain(engine)
    engine.pin()


def test_pinned_sequences_take_a_quarter_of_the_steps(make: MakeEngine) -> None:
    engine = make()
    engine.pin()
    engine.submit(ask("policy", max_tokens=15))
    engine.submit(ask("pinned", max_tokens=5, weights="pinned"))
    ended = {c.request_id: step for step in range(1, 21) for c in engine.step()}
    assert ended == {"policy": 19, "pinned": 20}


def test_one_weight_set_alone_gets_every_step(make: MakeEngine) -> None:
    engine = make()
    engine.pin()
    engine.submit(ask("pinned", max_tokens=5, weights="pinned"))
    assert [len(engine.step()) for _ in range(5)] == [0, 0, 0, 0, 1]


def test_reset_drops_everything_of_the_older_lineage(make: MakeEngine) -> None:
    engine = make(num_slots=1)
    engine.pin()
    engine.submit(ask("running", max_tokens=20))
    engine.submit(ask("queued"))
    engine.submit(ask("pinned", weights="pinned"))
    engine.step()
    engine.reset(2)
    assert (engine.num_active, engine.num_waiting) == (0, 0)
    with pytest.raises(DataError, match="'old'"):
        engine.submit(ask("old"))
    with pytest.raises(PublicationError, match="lineage 1"):
        engine.load_weights(update(9, lineage=1))
    engine.submit(ask("running", lineage=2))
    (done,) = drain(engine).values()
    assert done.lineage == 2


def test_weights_of_a_newer_lineage_reset_the_engine(make: MakeEngine) -> None:
    engine = make()
    engine.submit(ask("old"))
    engine.step()
    engine.load_weights(update(4, lineage=1))
    assert engine.num_active == 0
    engine.submit(ask("new", lineage=1, max_tokens=1))
    assert drain(engine)["new"].policy_version.tolist() == [4]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"max_tokens": CONTEXT - 2}, "3 prefix tokens"),
        ({"max_tokens": 0}, "0 tokens"),
        ({"prefix_ids": np.array([], np.int32)}, "empty prefix"),
        ({"prefix_ids": np.array([1, VOCAB], np.int32)}, "vocabulary of 96"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"seed": -1}, "seed -1"),
        ({"lineage": 3}, "lineage 3"),
    ],
)
def test_a_request_that_cannot_be_served_is_named(make: MakeEngine, changes: dict[str, Any], says: str) -> None:
    engine = make()
    with pytest.raises(DataError, match=f"'big'.*{says}"):
        engine.submit(ask("big", **changes))
    assert engine.num_waiting == 0


def test_the_context_can_be_filled_to_the_last_token(make: MakeEngine) -> None:
    engine = make()
    engine.submit(ask("full", max_tokens=CONTEXT - 3))
    assert len(drain(engine)["full"].token_ids) == CONTEXT - 3


def test_a_name_in_use_is_refused(make: MakeEngine) -> None:
    engine = make()
    engine.submit(ask("a"))
    with pytest.raises(DataError, match="'a'"):
        engine.submit(ask("a"))


def test_scores_have_one_number_a_predicted_token(make: MakeEngine) -> None:
    engine = make()
    sequences = [np.arange(n, dtype=np.int32) for n in (5, 1, 9)]
    scores = engine.score(sequences)
    assert [len(s) for s in scores] == [4, 0, 8]
    assert all(s.dtype == np.float32 and (s <= 0).all() for s in scores)
    engine.pin()
    assert all(np.array_equal(a, b) for a, b in zip(scores, engine.score(sequences, weights="pinned")))
