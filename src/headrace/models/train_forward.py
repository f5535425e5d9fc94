"""A lean training forward for Qwen3 and Llama in float32: two fused steps a layer, backward passes written out.

The module path spends a third of a small model's step in elementwise kernels and graph nodes. Here a layer is two
autograd functions that keep only what their backward pass needs, queries that share a key head share one product, and
the last feed-forward runs only where a token is predicted. Held to the module path, gradients included, by a test;
any other model takes the module path.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.models.train_attention import Attention, Geometry, bias_of, geometry_of
from headrace.models.train_norm import Norm, normalise, normalise_backward

MAX_WIDTH = 512
"""Widest row: attention probabilities are kept for the backward pass, about tokens x heads x width / 2 of them."""

_MODEL_TYPES = ("qwen3", "llama")


def supports(model: Any) -> bool:
    """Whether ``lean_states`` computes this model: float32 Qwen3 or Llama with plain projections."""
    config = model.config
    if config.model_type not in _MODEL_TYPES or model.dtype != torch.float32:
        return False
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        return False
    layers = model.base_model.layers
    biased = any(name.endswith(".bias") for name, _ in layers.named_parameters())
    adapted = any(hasattr(module, "base_layer") for module in layers.modules())
    return config.hidden_act == "silu" and not biased and not adapted


def lean_states(model: Any, token_ids: Tensor, position_ids: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Last hidden states [T, H] at the flat positions ``source`` of rows [R, W]; ``mask`` additive [R, 1, W, W].

    Equal to ``model.base_model(...).last_hidden_state.reshape(R * W, H)[source]`` to rounding.
    """
    body = model.base_model
    rows, width = token_ids.shape
    embedded = body.embed_tokens(token_ids)
    cos, sin = (half.reshape(rows * width, 1, -1).chunk(2, -1)[0] for half in body.rotary_emb(embedded, position_ids))
    geometry = geometry_of(model.config, rows, width)
    bias = bias_of(mask, geometry)
    x = embedded.reshape(rows * width, -1)
    for index, layer in enumerate(body.layers):
        x = _attention(layer, x, cos, sin, bias, geometry)
        if index == len(body.layers) - 1:
            x = x.index_select(0, source)
        mlp = layer.mlp
        x = _FeedForward.apply(
            x,
            layer.post_attention_layernorm.weight,
            mlp.gate_proj.weight,
            mlp.up_proj.weight,
            mlp.down_proj.weight,
            geometry.eps,
        )
    final: Tensor = Norm.apply(x, body.norm.weight, geometry.eps)
    return final


def _attention(layer: Any, x: Tensor, cos: Tensor, sin: Tensor, bias: list[Tensor], geometry: Geometry) -> Tensor:
    attention = layer.self_attn
    q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    result: Tensor = Attention.apply(
        x,
        layer.input_layernorm.weight,
        attention.q_proj.weight,
        attention.k_proj.weight,
        attention.v_proj.weight,
        attention.o_proj.weight,
        None if q_norm is None else q_norm.weight,
        None if k_norm is None else k_norm.weight,
        cos,
        sin,
        bias,
        geometry,
    )
    return result


class _FeedForward(torch.autograd.Function):
    """x + (silu(n Wg) * (n Wu)) Wd with n = rmsnorm(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, norm: Tensor, gate_w: Tensor, up_w: Tensor, down_w: Tensor, eps: float) -> Tensor:
        unit, inverse = normalise(x, eps)
        states = unit * norm
        gate, up = states @ gate_w.t(), states @ up_w.t()
        swish = torch.nn.functional.silu(gate)
        ctx.save_for_backward(unit, inverse, states, gate, swish, up, norm, gate_w, up_w, down_w)
        return torch.addmm(x, swish * up, down_w.t())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        unit, inverse, states, gate, swish, up, norm, gate_w, up_w, down_w = ctx.saved_tensors
        grad = grads[0]
        grad_down = grad.t() @ (swish * up)
        grad_act = grad @ down_w
        grad_up_out = swish.mul_(grad_act)  # saved for this use only
        grad_gate_out = torch.ops.aten.silu_backward(grad_act.mul_(up), gate)
        grad_states = torch.addmm(grad_gate_out @ gate_w, grad_up_out, up_w)
        grad_norm = (grad_states * unit).sum(0)
        grad_x = normalise_backward(grad_states.mul_(norm), unit, inverse).add_(grad)
        return grad_x, grad_norm, grad_gate_out.t() @ states, grad_up_out.t() @ states, grad_down, None
