"""Llama and its many relatives that share its code (SmolLM2 among them)."""

from __future__ import annotations

from typing import Any

from headrace.models.fast_forward.decoder import FusedDecoder
from headrace.models.fast_forward.rotary import STATIC_ROPE_TYPES


class LlamaDecoder(FusedDecoder):
    """Nothing is added to the common decoder."""


def unusual(config: Any) -> str:
    """What keeps a Llama-shaped configuration from the fused forward, ``""`` when nothing does."""
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type", "default") not in STATIC_ROPE_TYPES:
        return f"rope_type {rope['rope_type']!r}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0 or getattr(config, "partial_rotary_factor", 1.0) not in (
        None,
        1.0,
    ):
        return "partial rotary embedding"
    if getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False):
        return "biases"
    if config.hidden_act != "silu":
        return f"hidden_act {config.hidden_act!r}"
    if getattr(config, "quantization_config", None) is not None:
        return "quantised weights"
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"}:
        return "layers without full attention"
    return ""
