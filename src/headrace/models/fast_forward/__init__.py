"""Hand-fused forwards, picked by architecture; every other model runs through its own Hugging Face module.

A fused forward agrees with the module's logits to 1e-5 in float32 and costs a fraction of its dispatches, which is what
a small model's decode step is made of.
"""

from __future__ import annotations

from typing import Any

from headrace.models.fast_forward.decoder import CacheView, FusedDecoder
from headrace.models.fast_forward.head import chosen_logprob, head_logits
from headrace.models.fast_forward.llama import LlamaDecoder, unusual
from headrace.models.fast_forward.qwen3 import Qwen3Decoder

__all__ = ["CacheView", "FusedDecoder", "chosen_logprob", "fuse", "head_logits", "why_not"]

_DECODERS: dict[str, type[FusedDecoder]] = {"LlamaForCausalLM": LlamaDecoder, "Qwen3ForCausalLM": Qwen3Decoder}


def why_not(model: Any) -> str:
    """Why this model has no fused forward (a phrase), ``""`` when it has one."""
    name = type(model).__name__
    if name not in _DECODERS:
        return f"architecture {name}"
    return unusual(model.config)


def fuse(model: Any) -> FusedDecoder:
    """The fused decoder of a loaded Hugging Face model; it copies the weights, the model may be dropped.

    Raises ``ValueError`` when ``why_not`` has a reason.
    """
    reason = why_not(model)
    if reason:
        raise ValueError(f"no fused forward for {reason}")
    return _DECODERS[type(model).__name__](model)
