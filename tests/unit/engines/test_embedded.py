"""The embedded engine against a teacher-forced forward of the Hugging Face model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from headrace.engines.embedded import EmbeddedEngine
from headrace.errors import DataError, PublicationError
from headrace.models.loading import load_causal_lm
from headrace.models.random_model import random_model, save_random_model
from headrace.records import Completion, GenerationRequest, TensorSpec, WeightUpdate

ARCHITECTURES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "qwen3 fused": ("qwen3", {}, True),
    "llama fused": ("llama", {"tie_word_embeddings": False}, True),
    "qwen3 module": ("qwen3", {}, False),
    "qwen2": ("qwen2", {}, False),
    "mistral with a sliding window": ("mistral", {"sliding_window": 8}, False),
    "gemma2 with softcapping": ("gemma2", {"sliding_window": 8}, False),
    "olmo2": ("olmo2", {}, False),
}


def requests(n: int, max_tokens: int = 24) -> list[GenerationRequest]:
    generator = np.random.default_rng(3)
    return [
        GenerationRequest(
            request_id=f"r{i}",
            prefix_ids=generator.integers(0, 96, generator.integers(1, 20)).astype(np.int32),
            seed=i,
            temperature=(1.0, 0.7)[i % 2],
            max_tokens=max_tokens - i % 5,
            stop_token_ids=(),
        )
        for i in range(n)
    ]


def drain(engine: EmbeddedEngine) -> dict[str, Completion]:
    done: dict[str, Completion] = {}
    while engine.num_active or engine.num_waiting:
        done |= {c.request_id: c for c in engine.step()}
    return done


def full_update(model: Any, version: int = 1, dtype: torch.dtype = torch.float32, drop: str = "") -> WeightUpdate:
    specs, parts, offset = [], [], 0
    for name, parameter in model.named_parameters():
        if name == drop:
            continue
        raw = parameter.detach().to(dtype).contiguous().reshape(-1).view(torch.uint8).numpy()
        shape, kind = tuple(parameter.shape), str(dtype).removeprefix("torch.")
        specs.append(TensorSpec(name=name, dtype=kind, shape=shape, offset=offset, nbytes=len(raw)))
        parts.append(raw)
        offset += len(raw)
    return WeightUpdate(lineage=0, version=version, kind="full", specs=tuple(specs), buffer=np.concatenate(parts))


@torch.no_grad()
def teacher_forced(model: Any, request: GenerationRequest, completion: Completion) -> np.ndarray:
    ids = torch.from_numpy(np.concatenate([request.prefix_ids, completion.token_ids])).long()
    logprob = torch.log_softmax(model(ids[None]).logits[0].float() / request.temperature, -1)
    return logprob[:-1].gather(1, ids[1:, None])[len(request.prefix_ids) - 1 :, 0].numpy()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logprobs_agree_with_a_teacher_forced_forward(name: str, tmp_path: Any) -> None:
    architecture, changes, fused = ARCHITECTURES[name]
    folder = save_random_model(str(tmp_path), architecture, **changes)
    model = random_model(architecture, **changes)
    engine = EmbeddedEngine(folder, num_slots=5, fast_forward=fused or None)
    asked = requests(12)
    for request in asked:
        engine.submit(request)
    done = drain(engine)
    for request in asked:
        expected = teacher_forced(model, request, done[request.request_id])
        assert np.abs(done[request.request_id].logprob - expected).max() < 1e-4
    scored = engine.score([np.concatenate([r.prefix_ids, done[r.request_id].token_ids]) for r in asked[::2]])
    for request, score in zip(asked[::2], scored):
        assert np.abs(score[len(request.prefix_ids) - 1 :] - done[request.request_id].logprob).max() < 1e-4


@pytest.mark.parametrize("fused", [True, False])
def test_a_running_sequence_keeps_the_keys_and_values_of_older_weights(fused: bool, tmp_path: Any) -> None:
    engine = EmbeddedEngine(save_random_model(str(tmp_path)), num_slots=2, fast_forward=fused)
    old, new = random_model(), random_model(seed=4)
    request = requests(3)[2]
    engine.submit(request)
    for _ in range(5):
        engine.step()
    engine.load_weights(full_update(new))
    completion = drain(engine)[request.request_id]
    ids = torch.from_numpy(np.concatenate([request.prefix_ids, completion.token_ids])).long()[None]
    # The sixth token is the first one the new weights sample: they read the fifth, the old ones all before it.
    known = len(request.prefix_ids) + 4
    with torch.no_grad():
        cache = old(ids[:, :known], use_cache=True).past_key_values
        logits = new(ids[:, known : known + 1], past_key_values=cache).logits[0, -1]
    expected = torch.log_softmax(logits, -1)[ids[0, known + 1]].item()
    assert completion.logprob[5] == pytest.approx(expected, abs=1e-4)
    assert completion.policy_version[:7].tolist() == [0] * 5 + [1] * 2


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_weights_published_in_bfloat16(fused: bool, tied: bool, tmp_path: Any) -> None:
    folder = save_random_model(str(tmp_path), tie_word_embeddings=tied)
    rounded = random_model(seed=8, tie_word_embeddings=tied)
    update = full_update(rounded, dtype=torch.bfloat16)
    engine = EmbeddedEngine(folder, num_slots=4, fast_forward=fused)
    engine.load_weights(update)
    for parameter in rounded.parameters():
        parameter.data.copy_(parameter.bfloat16())
    for request in requests(6):
        engine.submit(request)
    done = drain(engine)
    for request in requests(6):
        expected = teacher_forced(rounded, request, done[request.request_id])
        assert np.abs(done[request.request_id].logprob - expected).max() < 1e-4


@pytest.mark.parametrize("fused", [True, False])
@torch.no_grad()
def test_a_bfloat16_engine_has_a_float32_head_on_the_rounded_tied_weight(fused: bool, tmp_path: Any) -> None:
    folder = save_random_model(str(tmp_path))
    engine = EmbeddedEngine(folder, num_slots=4, dtype="bfloat16", fast_forward=fused)
    model = load_causal_lm(folder, dtype="bfloat16")
    ids = torch.randint(0, 96, (1, 40), generator=torch.Generator().manual_seed(0))
    hidden = model.model(ids).last_hidden_state
    logits = hidden.float() @ model.get_input_embeddings().weight.float().t()
    expected = torch.log_softmax(logits, -1)[0, :-1].gather(-1, ids[0, 1:, None])[:, 0].numpy()
    (score,) = engine.score([ids[0].numpy().astype(np.int32)])
    # The fused forward rounds its hidden states at other places than the module does.
    assert np.abs(score - expected).max() < (0.3 if fused else 1e-5)
    rounded_head = torch.log_softmax(model(ids).logits.float(), -1)[0, :-1].gather(-1, ids[0, 1:, None])[:, 0].numpy()
    assert fused or np.abs(score - rounded_head).max() > 1e-4
    for request in requests(4, max_tokens=8):
        engine.submit(request)
    assert all((c.logprob <= 0).all() for c in drain(engine).values())


def test_a_prefix_shared_by_waiting_requests_is_prefilled_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = EmbeddedEngine(save_random_model(str(tmp_path)), num_slots=8)
    decoder = engine._policy.decoder
    shapes: list[tuple[int, ...]] = []
    prefill = decoder.prefill
    monkeypatch.setattr(decoder, "prefill", lambda tokens: (shapes.append(tuple(tokens.shape)), prefill(tokens))[1])
    for i in range(8):
        prefix = np.arange(10 + 3 * (i % 2), dtype=np.int32)
        engine.submit(
            GenerationRequest(
                request_id=f"r{i}", prefix_ids=prefix, seed=i, temperature=1.0, max_tokens=5, stop_token_ids=()
            )
        )
    done = drain(engine)
    assert shapes == [(2, 12)]
    for i in range(8):
        prefix = np.arange(10 + 3 * (i % 2), dtype=np.int32)
        (score,) = engine.score([np.concatenate([prefix, done[f"r{i}"].token_ids])])
        assert np.abs(score[len(prefix) - 1 :] - done[f"r{i}"].logprob).max() < 1e-4


def test_temperature_zero_is_the_point_mass_on_the_largest_logit(tmp_path: Any) -> None:
    engine = EmbeddedEngine(save_random_model(str(tmp_path)), num_slots=1)
    prefix = np.array([3, 1, 4], np.int32)
    engine.submit(
        GenerationRequest(request_id="g", prefix_ids=prefix, seed=0, temperature=0.0, max_tokens=8, stop_token_ids=())
    )
    done = drain(engine)["g"]
    ids = torch.from_numpy(np.concatenate([prefix, done.token_ids])).long()
    with torch.no_grad():
        assert random_model()(ids[None]).logits[0, 2:-1].argmax(-1).tolist() == done.token_ids.tolist()
    assert done.logprob.tolist() == [0.0] * 8


@pytest.mark.parametrize("fused", [True, False])
def test_updates_that_do_not_match_are_refused(fused: bool, tmp_path: Any) -> None:
    engine = EmbeddedEngine(save_random_model(str(tmp_path)), num_slots=1, fast_forward=fused)
    with pytest.raises(PublicationError, match=r"lacks 1 tensors.*'model.norm.weight'"):
        engine.load_weights(full_update(random_model(), drop="model.norm.weight"))
    with pytest.raises(PublicationError, match=r"layers\.3"):
        engine.load_weights(full_update(random_model(num_hidden_layers=4)))
    with pytest.raises(PublicationError, match="shape"):
        engine.load_weights(full_update(random_model(intermediate_size=256)))
    good = full_update(random_model())
    adapter = WeightUpdate(lineage=0, version=1, kind="adapter", specs=good.specs, buffer=good.buffer)
    with pytest.raises(PublicationError, match="adapter"):
        engine.load_weights(adapter)
    short = WeightUpdate(lineage=0, version=1, kind="full", specs=good.specs, buffer=good.buffer[:-4])
    with pytest.raises(PublicationError, match="buffer"):
        engine.load_weights(short)
    assert engine.version == 0


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_pinning_copies_every_weight_each_time(fused: bool, tied: bool, tmp_path: Any) -> None:
    folder = save_random_model(str(tmp_path), tie_word_embeddings=tied)
    engine = EmbeddedEngine(folder, num_slots=1, fast_forward=fused)
    sequence = [np.arange(30, dtype=np.int32)]
    for seed in (1, 2):
        engine.load_weights(full_update(random_model(seed=seed, tie_word_embeddings=tied), version=seed))
        assert engine.pin() == seed
        (before,) = engine.score(sequence)
        engine.load_weights(full_update(random_model(seed=seed + 5, tie_word_embeddings=tied), version=seed))
        (pinned,), (policy,) = engine.score(sequence, weights="pinned"), engine.score(sequence)
        assert np.array_equal(pinned, before)
        assert np.abs(policy - before).max() > 0.1


def test_a_read_only_buffer_is_taken_without_a_warning(tmp_path: Any) -> None:
    engine = EmbeddedEngine(save_random_model(str(tmp_path)), num_slots=1)
    update = full_update(random_model(seed=2), version=6)
    update.buffer.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.load_weights(update)
    assert engine.version == 6


def test_engines_that_cannot_be(tmp_path: Any) -> None:
    folder = save_random_model(str(tmp_path / "llama"), "llama", attention_bias=True)
    with pytest.raises(DataError, match="biases"):
        EmbeddedEngine(folder, num_slots=1, fast_forward=True)
    with pytest.raises(DataError, match=r"513.*512"):
        EmbeddedEngine(folder, num_slots=1, max_len=513)
    with pytest.raises(DataError, match="num_slots"):
        EmbeddedEngine(folder, num_slots=0)
    with pytest.raises(DataError, match="nowhere"):
        EmbeddedEngine(str(tmp_path / "nowhere"), num_slots=1)
