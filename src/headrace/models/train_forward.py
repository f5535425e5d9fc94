"""A lean training forward for Qwen3 and Llama in float32: two fused steps a layer, backward passes written out.

The module path spends a third of a small model's step in elementwise kernels and graph nodes. Here a layer is two
autograd functions that keep only what their backward pass needs, queries that share a key head share one product, and
the last feed-forward runs only where a token is predicted. Held to the module path, gradients included, by a test;
any other model takes the module path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MAX_WIDTH = 256
"""Widest row: attention probabilities are kept for the backward pass, tokens x heads x width of them."""

_MODEL_TYPES = ("qwen3", "llama")


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Shape of the attention: R rows, W wide, ``kv`` key heads of ``dim``, each shared by ``share`` query heads."""

    rows: int
    width: int
    kv: int
    share: int
    dim: int
    eps: float


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
    geometry = _geometry(model.config, rows, width)
    bias = _bias(mask, geometry)
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
    final: Tensor = _Norm.apply(x, body.norm.weight, geometry.eps)
    return final


def _geometry(config: Any, rows: int, width: int) -> _Geometry:
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return _Geometry(rows, width, kv, heads // kv, dim, config.rms_norm_eps)


def _bias(mask: Tensor, g: _Geometry) -> Tensor:
    """The mask as the score product takes it: [R * kv, share * W, W], one copy for all layers."""
    shape = (g.rows, g.kv, g.share, g.width, g.width)
    return mask[:, :, None].expand(shape).reshape(g.rows * g.kv, g.share * g.width, g.width)


def _attention(layer: Any, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor, geometry: _Geometry) -> Tensor:
    attention = layer.self_attn
    q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    result: Tensor = _Attention.apply(
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


# RMSNorm --------------------------------------------------------------------------------------------------------------


def _normalise(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x / rms(x) along the last axis, and 1 / rms(x)."""
    inverse = x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return x * inverse, inverse


def _normalise_backward(grad: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """Gradient of ``_normalise``'s input; overwrites ``grad``."""
    along = (grad * unit).mean(-1, keepdim=True)
    return grad.addcmul_(unit, along, value=-1).mul_(inverse)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        unit, inverse = _normalise(x, eps)
        ctx.save_for_backward(unit, inverse, weight)
        return unit * weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        unit, inverse, weight = ctx.saved_tensors
        grad_weight = (grads[0] * unit).sum(0)
        return _normalise_backward(grads[0] * weight, unit, inverse), grad_weight, None


# Feed-forward ---------------------------------------------------------------------------------------------------------


class _FeedForward(torch.autograd.Function):
    """x + (silu(n Wg) * (n Wu)) Wd with n = rmsnorm(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, norm: Tensor, gate_w: Tensor, up_w: Tensor, down_w: Tensor, eps: float) -> Tensor:
        unit, inverse = _normalise(x, eps)
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
        grad_x = _normalise_backward(grad_states.mul_(norm), unit, inverse).add_(grad)
        return grad_x, grad_norm, grad_gate_out.t() @ states, grad_up_out.t() @ states, grad_down, None


# Attention ------------------------------------------------------------------------------------------------------------


class _Attention(torch.autograd.Function):
    """x + softmax(rope(qnorm(n Wq)) rope(knorm(n Wk))^T / sqrt(d) + bias) (n Wv) Wo with n = rmsnorm(x)."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        x, norm, q_w, k_w, v_w, o_w, q_norm, k_norm, cos, sin, bias, g = args
        unit, inverse = _normalise(x, g.eps)
        states = unit * norm
        q, q_saved = _heads(states @ q_w.t(), q_norm, cos, sin, g)
        k, k_saved = _heads(states @ k_w.t(), k_norm, cos, sin, g)
        queries, keys = _by_key_head(q.mul_(g.dim**-0.5), g), _by_key_head(k, g)
        values = _by_key_head((states @ v_w.t()).view(-1, g.kv, g.dim), g)
        shares = torch.baddbmm(bias, queries, keys.transpose(1, 2)).softmax(-1)
        mixed = _by_token(torch.bmm(shares, values), g)
        ctx.save_for_backward(
            *(unit, inverse, states, queries, keys, values, shares, mixed),
            *(norm, q_w, k_w, v_w, o_w, q_norm, k_norm, cos, sin, *q_saved, *k_saved),
        )
        ctx.geometry = g
        return torch.addmm(x, mixed, o_w.t())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        unit, inverse, states, queries, keys, values, shares, mixed, *weights = ctx.saved_tensors
        norm, q_w, k_w, v_w, o_w, q_norm, k_norm, cos, sin, *saved = weights
        g: _Geometry = ctx.geometry
        grad = grads[0]
        grad_o = grad.t() @ mixed
        grad_mixed = _by_key_head((grad @ o_w).view(-1, g.kv * g.share, g.dim), g)
        grad_values = _by_token(torch.bmm(shares.transpose(1, 2), grad_mixed), g)
        grad_shares = torch.bmm(grad_mixed, values.transpose(1, 2))
        grad_scores = torch._softmax_backward_data(grad_shares, shares, -1, shares.dtype)
        grad_q = _by_token(torch.bmm(grad_scores, keys), g).mul_(g.dim**-0.5)
        grad_k = _by_token(torch.bmm(grad_scores.transpose(1, 2), queries), g)
        grad_q, grad_q_norm = _heads_backward(grad_q, q_norm, saved[:2], cos, sin, g)
        grad_k, grad_k_norm = _heads_backward(grad_k, k_norm, saved[2:], cos, sin, g)
        grad_states = torch.addmm(torch.addmm(grad_q @ q_w, grad_k, k_w), grad_values, v_w)
        grad_norm = (grad_states * unit).sum(0)
        grad_x = _normalise_backward(grad_states.mul_(norm), unit, inverse).add_(grad)
        products = (grad_q.t() @ states, grad_k.t() @ states, grad_values.t() @ states, grad_o)
        return (grad_x, grad_norm, *products, grad_q_norm, grad_k_norm, None, None, None, None)


def _heads(
    projected: Tensor, weight: Tensor | None, cos: Tensor, sin: Tensor, g: _Geometry
) -> tuple[Tensor, tuple[Tensor | None, Tensor | None]]:
    """Split into heads [N, h, D], norm each head if the model does, rotate; and what the backward pass needs."""
    heads = projected.view(projected.shape[0], -1, g.dim)
    if weight is None:
        return _rotate(heads, cos, sin), (None, None)
    unit, inverse = _normalise(heads, g.eps)
    return _rotate(unit * weight, cos, sin), (unit, inverse)


def _heads_backward(
    grad: Tensor, weight: Tensor | None, saved: list[Tensor | None], cos: Tensor, sin: Tensor, g: _Geometry
) -> tuple[Tensor, Tensor | None]:
    """Gradient [N, h * D] of ``_heads``' input, and of the head norm's weight."""
    turned = _rotate(grad.view(grad.shape[0], -1, g.dim), cos, -sin)
    unit, inverse = saved
    if weight is None or unit is None or inverse is None:
        return turned.view(grad.shape), None
    grad_weight = (turned * unit).view(-1, g.dim).sum(0)
    return _normalise_backward(turned.mul_(weight), unit, inverse).view(grad.shape), grad_weight


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [N, h, D] by angles [N, 1, D / 2]; with -sin its transpose."""
    turned = torch.empty_like(heads)
    (a, b), (to_a, to_b) = heads.chunk(2, -1), turned.chunk(2, -1)
    torch.mul(a, cos, out=to_a).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=to_b).addcmul_(a, sin)
    return turned


def _by_key_head(heads: Tensor, g: _Geometry) -> Tensor:
    """[N, h, D] -> [R * kv, (h / kv) * W, D]: query heads that share a key head stacked into one matrix."""
    split = heads.view(g.rows, g.width, g.kv, -1, g.dim)
    return split.permute(0, 2, 3, 1, 4).reshape(g.rows * g.kv, -1, g.dim)


def _by_token(stacked: Tensor, g: _Geometry) -> Tensor:
    """[R * kv, s * W, D] -> [N, kv * s * D], the inverse of ``_by_key_head``."""
    split = stacked.view(g.rows, g.kv, -1, g.width, g.dim)
    return split.permute(0, 3, 1, 2, 4).reshape(g.rows * g.width, -1)
