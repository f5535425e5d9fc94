"""Attention of the lean training forward: norm, projections, rotary embedding, scores and output in one function."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from headrace.models.train_norm import normalise, normalise_backward

SPAN = 24
"""Columns whose queries are scored together, against the keys up to the last of them: half of a row's square is later
than its query and need not be computed. Shorter spans compute less and call more; on one CPU thread 20 to 40 are equal.
"""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of the attention: R rows, W wide, ``kv`` key heads of ``dim``, each shared by ``share`` query heads.

    ``spans`` cut the columns: queries a to b are scored against keys 0 to b.
    """

    rows: int
    width: int
    kv: int
    share: int
    dim: int
    eps: float
    spans: tuple[tuple[int, int], ...]


def geometry_of(config: Any, rows: int, width: int) -> Geometry:
    """Shape of a model's attention on rows [R, W], columns cut into spans of about ``SPAN``."""
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    count = max(1, round(width / SPAN))
    bounds = [width * i // count for i in range(count + 1)]
    return Geometry(rows, width, kv, heads // kv, dim, config.rms_norm_eps, tuple(pairwise(bounds)))


def bias_of(mask: Tensor, g: Geometry) -> list[Tensor]:
    """The mask as the score products take it: for each span [R * kv, (b - a) * share, b], one copy for all layers."""
    return [
        mask[:, :, a:b, None, :b].expand(g.rows, g.kv, b - a, g.share, b).reshape(g.rows * g.kv, -1, b)
        for a, b in g.spans
    ]


class Attention(torch.autograd.Function):
    """x + softmax(rope(qnorm(n Wq)) rope(knorm(n Wk))^T / sqrt(d) + bias) (n Wv) Wo with n = rmsnorm(x)."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        x, norm, q_w, k_w, v_w, o_w, q_norm, k_norm, cos, sin, bias, g = args
        unit, inverse = normalise(x, g.eps)
        states = unit * norm
        q, q_saved = _heads(states @ q_w.t(), q_norm, cos, sin, g)
        k, k_saved = _heads(states @ k_w.t(), k_norm, cos, sin, g)
        queries, keys = _by_key_head(q.mul_(g.dim**-0.5), g), _by_key_head(k, g)
        values = _by_key_head((states @ v_w.t()).view(-1, g.kv, g.dim), g)
        shares = [
            torch.baddbmm(part, queries[:, a * g.share : b * g.share], keys[:, :b].transpose(1, 2)).softmax(-1)
            for (a, b), part in zip(g.spans, bias, strict=True)
        ]
        mixed = _by_token(torch.cat([torch.bmm(part, values[:, : part.shape[-1]]) for part in shares], 1), g)
        ctx.save_for_backward(
            *(unit, inverse, states, queries, keys, values, mixed),
            *(norm, q_w, k_w, v_w, o_w, q_norm, k_norm, cos, sin, *q_saved, *k_saved, *shares),
        )
        ctx.geometry = g
        return torch.addmm(x, mixed, o_w.t())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        unit, inverse, states, queries, keys, values, mixed, *weights = ctx.saved_tensors
        norm, q_w, k_w, v_w, o_w, q_norm, k_norm, cos, sin, *saved = weights
        g: Geometry = ctx.geometry
        grad = grads[0]
        grad_o = grad.t() @ mixed
        grad_mixed = _by_key_head((grad @ o_w).view(-1, g.kv * g.share, g.dim), g)
        grads_by_head = _scores_backward(grad_mixed, queries, keys, values, saved[4:], g)
        grad_q, grad_k, grad_values = (_by_token(part, g) for part in grads_by_head)
        grad_q.mul_(g.dim**-0.5)
        grad_q, grad_q_norm = _heads_backward(grad_q, q_norm, saved[:2], cos, sin, g)
        grad_k, grad_k_norm = _heads_backward(grad_k, k_norm, saved[2:4], cos, sin, g)
        grad_states = torch.addmm(torch.addmm(grad_q @ q_w, grad_k, k_w), grad_values, v_w)
        grad_norm = (grad_states * unit).sum(0)
        grad_x = normalise_backward(grad_states.mul_(norm), unit, inverse).add_(grad)
        products = (grad_q.t() @ states, grad_k.t() @ states, grad_values.t() @ states, grad_o)
        return (grad_x, grad_norm, *products, grad_q_norm, grad_k_norm, None, None, None, None)


def _scores_backward(
    grad_mixed: Tensor, queries: Tensor, keys: Tensor, values: Tensor, shares: list[Tensor], g: Geometry
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values from that of softmax(queries keys^T + bias) values, span by span."""
    grad_q, grad_k, grad_values = torch.empty_like(queries), torch.zeros_like(keys), torch.zeros_like(values)
    for (a, b), part in zip(g.spans, shares, strict=True):
        place = slice(a * g.share, b * g.share)
        grad_values[:, :b] += torch.bmm(part.transpose(1, 2), grad_mixed[:, place])
        grad_part = torch.bmm(grad_mixed[:, place], values[:, :b].transpose(1, 2))
        grad_scores = torch._softmax_backward_data(grad_part, part, -1, part.dtype)
        grad_q[:, place] = torch.bmm(grad_scores, keys[:, :b])
        grad_k[:, :b] += torch.bmm(grad_scores.transpose(1, 2), queries[:, place])
    return grad_q, grad_k, grad_values


def _heads(
    projected: Tensor, weight: Tensor | None, cos: Tensor, sin: Tensor, g: Geometry
) -> tuple[Tensor, tuple[Tensor | None, Tensor | None]]:
    """Split into heads [N, h, D], norm each head if the model does, rotate; and what the backward pass needs."""
    heads = projected.view(projected.shape[0], -1, g.dim)
    if weight is None:
        return _rotate(heads, cos, sin), (None, None)
    unit, inverse = normalise(heads, g.eps)
    return _rotate(unit * weight, cos, sin), (unit, inverse)


def _heads_backward(
    grad: Tensor, weight: Tensor | None, saved: list[Tensor | None], cos: Tensor, sin: Tensor, g: Geometry
) -> tuple[Tensor, Tensor | None]:
    """Gradient [N, h * D] of ``_heads``' input, and of the head norm's weight."""
    turned = _rotate(grad.view(grad.shape[0], -1, g.dim), cos, -sin)
    unit, inverse = saved
    if weight is None or unit is None or inverse is None:
        return turned.view(grad.shape), None
    grad_weight = (turned * unit).view(-1, g.dim).sum(0)
    return normalise_backward(turned.mul_(weight), unit, inverse).view(grad.shape), grad_weight


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of [N, h, D] by angles [N, 1, D / 2]; with -sin its transpose."""
    turned = torch.empty_like(heads)
    (a, b), (to_a, to_b) = heads.chunk(2, -1), turned.chunk(2, -1)
    torch.mul(a, cos, out=to_a).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=to_b).addcmul_(a, sin)
    return turned


def _by_key_head(heads: Tensor, g: Geometry) -> Tensor:
    """[N, h, D] -> [R * kv, W * (h / kv), D]: query heads that share a key head stacked into one matrix, by column."""
    split = heads.view(g.rows, g.width, g.kv, -1, g.dim)
    return split.transpose(1, 2).reshape(g.rows * g.kv, -1, g.dim)


def _by_token(stacked: Tensor, g: Geometry) -> Tensor:
    """[R * kv, W * s, D] -> [N, kv * s * D], the inverse of ``_by_key_head``."""
    split = stacked.view(g.rows, g.kv, g.width, -1, g.dim)
    return split.transpose(1, 2).reshape(g.rows * g.width, -1)
