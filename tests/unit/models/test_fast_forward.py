"""The fused forwards against the Hugging Face modules they replace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from headrace.engines.kv_cache import KVCache
from headrace.models.fast_forward import fuse, head_logits, why_not
from headrace.models.random_model import random_model

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("qwen3", {}),
    "qwen3 untied": ("qwen3", {"tie_word_embeddings": False}),
    "llama": ("llama", {}),
    "llama one key head a query head": ("llama", {"num_key_value_heads": 4, "tie_word_embeddings": False}),
    "llama3 rope": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "yarn rope": (
        "qwen3",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 128,
            }
        },
    ),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(name: str) -> Any:
    architecture, changes = MODELS[name]
    return random_model(architecture, **changes)


def ids(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 96, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_prefill_and_decode_agree_with_the_module(name: str) -> None:
    model = build(name)
    decoder = fuse(model)
    tokens = ids(3, 30)
    expected = torch.log_softmax(model(tokens).logits, -1)
    cache = KVCache(3, 512, torch.float32, torch.device("cpu"))
    start = [4, 17, 9]
    for row, length in enumerate(start):
        cache.store([row], [0], decoder.prefill(tokens[row : row + 1, :length]))
    for ahead in range(10):
        position = np.array(start) + ahead
        view = cache.view(position, int(position.max()) + 1)
        logits = decoder.decode(tokens[range(3), position], view.position, view)
        assert torch.allclose(torch.log_softmax(logits, -1), expected[range(3), position], atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_scores_agree_with_the_module(name: str) -> None:
    model = build(name)
    tokens = ids(2, 300)
    expected = torch.log_softmax(model(tokens).logits, -1)[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    assert torch.allclose(fuse(model).score(tokens), expected, atol=2e-5)


@torch.inference_mode()
def test_decoding_far_out_extends_the_rotary_table() -> None:
    model = random_model("llama", max_position_embeddings=2048)
    decoder = fuse(model)
    tokens = ids(1, 1200)
    cache = KVCache(1, 2048, torch.float32, torch.device("cpu"))
    cache.store([0], [0], decoder.prefill(tokens[:, :1199]))
    view = cache.view(np.array([1199]), 1200)
    logits = decoder.decode(tokens[:, 1199], view.position, view)
    assert torch.allclose(logits, model(tokens).logits[:, -1], atol=5e-5)


@pytest.mark.parametrize("name", ["qwen3", "qwen3 untied", "llama"])
@torch.inference_mode()
def test_loading_by_name_reaches_every_fused_weight(name: str) -> None:
    architecture, changes = MODELS[name]
    other = random_model(architecture, seed=9, **changes)
    decoder = fuse(build(name))
    named = dict(other.named_parameters())
    assert decoder.parameter_names() == set(named)
    for key, value in named.items():
        decoder.load(key, value)
    tokens = ids(2, 20)
    expected = torch.log_softmax(other(tokens).logits, -1)[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    assert torch.allclose(decoder.score(tokens), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "changes", "says"),
    [
        ("llama", {"attention_bias": True}, "biases"),
        ("llama", {"mlp_bias": True}, "biases"),
        ("llama", {"hidden_act": "gelu"}, "gelu"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "dynamic"),
        ("qwen2", {}, "Qwen2ForCausalLM"),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "full attention"),
    ],
)
def test_unusual_configurations_take_the_module_path(architecture: str, changes: dict[str, Any], says: str) -> None:
    model = random_model(architecture, **changes)
    assert says in why_not(model)
    with pytest.raises(ValueError, match=says):
        fuse(model)


def test_the_head_multiplies_the_rounded_weight_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 64, generator=generator)
    weight = torch.randn(9000, 64, generator=generator).bfloat16()  # two tiles
    expected = (hidden.double() @ weight.double().t()).float()
    assert torch.allclose(head_logits(hidden, weight), expected, atol=1e-4)
    assert not torch.allclose((hidden.bfloat16() @ weight.t()).float(), expected, atol=1e-2)
