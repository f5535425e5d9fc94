"""Small models with random weights, for tests and benchmarks that need a model's shape and not its words."""

from __future__ import annotations

from typing import Any

_SMALL: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    # Wide enough for next-token distributions that are neither flat nor certain.
    "initializer_range": 0.1,
}


def random_model(architecture: str = "qwen3", *, seed: int = 0, **changes: Any) -> Any:
    """A float32 causal language model of a transformers model type; ``changes`` override the configuration.

    Norm weights are random too, so that a forward which mixes them up is found out.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(architecture, **{**_SMALL, **changes}))
        for name, parameter in model.named_parameters():
            if "norm" in name:
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model.eval()


def save_random_model(folder: str, architecture: str = "qwen3", *, seed: int = 0, **changes: Any) -> str:
    """Write ``random_model`` in Hugging Face format; returns the folder."""
    random_model(architecture, seed=seed, **changes).save_pretrained(folder)
    return folder
