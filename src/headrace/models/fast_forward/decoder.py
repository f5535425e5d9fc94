"""A decoder forward with fused projections and few operations a layer, over weights in Hugging Face naming.

Shapes: n rows, H query heads, K key/value heads, D channels a head. The weights live here alone: parameter names of the
Hugging Face model map to views into the fused tensors, and loading writes through them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.nn import functional as F

from headrace.errors import PublicationError
from headrace.models.fast_forward.head import chosen_logprob, head_logits
from headrace.models.fast_forward.rotary import RotaryTable

if TYPE_CHECKING:
    from torch import Tensor


SCORE_ROWS = 512  # rows whose logits exist at the same time when sequences are scored


class CacheView(Protocol):
    """What a decode step needs of a key/value cache."""

    mask: Tensor  # [n, 1, 1, T], 0 where a row may look, -inf elsewhere, in the model's dtype
    width: int  # T

    def append(self, plane: int, values: Tensor) -> Tensor:
        """Write [n, heads, D] at each row's position; return what the plane holds, [n, heads, T, D]."""


class Layer:
    """Fused weights of one layer: matrices are stored [out, in] as Hugging Face does, and used by their transposes.

    Norm weights are float32, times the square root of their width (see ``FusedDecoder.normed``).
    """

    def __init__(self, decoder: FusedDecoder) -> None:
        hidden, inner, d = decoder.hidden, decoder.inner, decoder.head_dim
        heads = decoder.num_heads + 2 * decoder.num_kv_heads
        self.input_norm = decoder.new_norm(hidden)
        self.qkv_t = decoder.new(heads * d, hidden).t()
        self.out_t = decoder.new(hidden, decoder.num_heads * d).t()
        self.post_norm = decoder.new_norm(hidden)
        self.gate_up_t = decoder.new(2 * inner, hidden).t()
        self.down_t = decoder.new(hidden, inner).t()


class FusedDecoder:
    """Llama-shaped decoder. Subclasses say what their architecture adds between projection and rotation.

    Query and key channels are kept with each rotary pair side by side (the Hugging Face layout has them half a head
    apart), so that the rotation is one complex product. Scores do not change: both sides are permuted alike.
    """

    planes_per_layer = 1  # keys and values of a layer share a cache plane, keys first

    def __init__(self, model: Any) -> None:
        config = model.config
        self.hidden = int(config.hidden_size)
        self.inner = int(config.intermediate_size)
        self.num_heads = int(config.num_attention_heads)
        self.num_kv_heads = int(config.num_key_value_heads)
        self.head_dim = int(getattr(config, "head_dim", None) or self.hidden // self.num_heads)
        self.vocab_size = int(config.vocab_size)
        self.num_planes = int(config.num_hidden_layers)
        self.dtype: torch.dtype = model.get_input_embeddings().weight.dtype
        self.device: torch.device = model.get_input_embeddings().weight.device
        # Square roots of width x epsilon, to be added to a norm in quadrature.
        self._floor = {
            width: torch.tensor(math.sqrt(width * float(config.rms_norm_eps)), device=self.device)
            for width in (self.hidden, self.head_dim)
        }
        self._tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
        self._rotary = RotaryTable(model.model.rotary_emb, int(config.max_position_embeddings))
        self.embed = self.new(self.vocab_size, self.hidden)
        self.head = self.embed if self._tied else self.new(self.vocab_size, self.hidden)
        self.norm = self.new_norm(self.hidden)
        self.layers = [self._new_layer() for _ in range(self.num_planes)]
        # name -> view into a fused tensor, and the shape a value is brought to before it is broadcast into the view
        self._targets = {name: (view, tuple(shape)) for name, view, shape in self._named_targets()}
        for name, parameter in model.named_parameters():
            self.load(name, parameter.detach())

    def new(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def new_norm(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=self.device)

    # ---- weights

    def parameter_names(self) -> set[str]:
        """Names a full update must carry."""
        return set(self._targets) - ({"lm_head.weight"} if self._tied else set())

    def load(self, name: str, value: Tensor) -> None:
        """Overwrite one parameter, named as in the Hugging Face model, with a tensor of its shape."""
        target = self._targets.get(name)
        if target is None:
            raise PublicationError(f"weights {name!r} have no place in this model")
        view, shape = target
        if value.numel() != math.prod(shape):
            raise PublicationError(f"weights {name!r} have shape {tuple(value.shape)}, not {math.prod(shape)} values")
        view.copy_(value.reshape(shape))
        if name.endswith("norm.weight"):
            view.mul_(math.sqrt(value.shape[-1]))

    def copy_from(self, other: FusedDecoder) -> None:
        """Take over the weights of a decoder of the same model."""
        for name, (view, _) in self._targets.items():
            view.copy_(other._targets[name][0])

    def _new_layer(self) -> Layer:
        return Layer(self)

    def _named_targets(self) -> Iterator[tuple[str, Tensor, Sequence[int]]]:
        yield "model.embed_tokens.weight", self.embed, self.embed.shape
        yield "model.norm.weight", self.norm, self.norm.shape
        yield "lm_head.weight", self.head, self.head.shape
        for index, layer in enumerate(self.layers):
            for name, view in self._matrices(layer):
                yield f"model.layers.{index}.{name}.weight", view, view.shape
            for name, view in self._head_norms(layer):
                yield f"model.layers.{index}.{name}.weight", view, view.shape[1:]

    def _head_norms(self, layer: Layer) -> Iterator[tuple[str, Tensor]]:
        """Weights one value of which serves every head: views [heads, ...] of them."""
        yield from ()

    def _matrices(self, layer: Layer) -> Iterator[tuple[str, Tensor]]:
        h, k, d = self.num_heads, self.num_kv_heads, self.head_dim
        query, key, value = layer.qkv_t.t().split([h * d, k * d, k * d])
        gate, up = layer.gate_up_t.t().split(self.inner)
        yield "input_layernorm", layer.input_norm
        yield "self_attn.q_proj", self.paired(query.view(h, d, self.hidden))
        yield "self_attn.k_proj", self.paired(key.view(k, d, self.hidden))
        yield "self_attn.v_proj", value
        yield "self_attn.o_proj", layer.out_t.t()
        yield "post_attention_layernorm", layer.post_norm
        yield "mlp.gate_proj", gate
        yield "mlp.up_proj", up
        yield "mlp.down_proj", layer.down_t.t()

    def paired(self, heads: Tensor) -> Tensor:
        """View [heads, D, ...] stored pair by pair as [heads, 2, D/2, ...], the order Hugging Face stores it in."""
        return heads.view(heads.shape[0], self.head_dim // 2, 2, *heads.shape[2:]).transpose(1, 2)

    # ---- forward

    def decode(self, tokens: Tensor, positions: Tensor, view: CacheView) -> Tensor:
        """One token a row: int64 tokens and positions [n] -> float32 logits [n, V]; keys and values are appended."""
        n, k, d = len(tokens), self.num_kv_heads, self.head_dim
        x = F.embedding(tokens, self.embed)
        rotation = self._rotary.at(positions, view.width - 1)[:, None]
        for index, layer in enumerate(self.layers):
            heads = self._project(x, layer, rotation)
            plane = view.append(index, heads[:, self.num_heads :])
            query = heads[:, : self.num_heads].view(n, k, -1, d)  # the heads of a group share keys and a mask row
            mixed = F.scaled_dot_product_attention(query, plane[:, :k], plane[:, k:], attn_mask=view.mask)
            x = self._combine(x, mixed.reshape(n, -1), layer)
        return head_logits(self.normed(x, self.norm), self.head)

    def prefill(self, tokens: Tensor) -> list[Tensor]:
        """Keys and values of int64 tokens [B, P] at positions 0.., one plane [B, 2K, P, D] a layer.

        Rows may be padded on the right: attention is causal, so what stands there touches nothing before it.
        """
        planes: list[Tensor] = []
        self._causal(tokens, planes)
        return planes

    def score(self, tokens: Tensor) -> Tensor:
        """float32 log-probability [B, L-1] of tokens 1.. of int64 [B, L] given what stands before, temperature 1."""
        b, length = tokens.shape
        hidden = self.normed(self._causal(tokens, None), self.norm).view(b, length, -1)[:, :-1].reshape(-1, self.hidden)
        following = tokens[:, 1:].reshape(-1)
        parts = [
            chosen_logprob(
                head_logits(hidden[start : start + SCORE_ROWS], self.head), following[start : start + SCORE_ROWS]
            )
            for start in range(0, len(hidden), SCORE_ROWS)
        ]
        return torch.cat(parts).view(b, length - 1)

    def _causal(self, tokens: Tensor, planes: list[Tensor] | None) -> Tensor:
        b, p = tokens.shape
        h, k, d = self.num_heads, self.num_kv_heads, self.head_dim
        x = F.embedding(tokens.reshape(-1), self.embed)
        rotation = self._rotary.at(torch.arange(p, device=tokens.device), p - 1).repeat(b, 1)[:, None]
        for index, layer in enumerate(self.layers):
            heads = self._project(x, layer, rotation).view(b, p, h + 2 * k, d).transpose(1, 2)
            if planes is not None:
                planes.append(heads[:, h:])
                if index == len(self.layers) - 1:
                    return x  # nothing reads what the last layer would add
            query, key, value = heads.split([h, k, k], dim=1)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=h != k)
            x = self._combine(x, mixed.transpose(1, 2).reshape(b * p, -1), layer)
        return x

    def _project(self, x: Tensor, layer: Layer, rotation: Tensor) -> Tensor:
        """Rotated queries, rotated keys and values of hidden states [n, hidden]: [n, H + 2K, D]."""
        fused = torch.mm(self.normed(x, layer.input_norm), layer.qkv_t)
        heads = fused.view(len(x), self.num_heads + 2 * self.num_kv_heads, self.head_dim)
        turned = heads[:, : self.num_heads + self.num_kv_heads]
        _rotate(self._head_norm(turned, layer), rotation, turned)
        return heads

    def _head_norm(self, heads: Tensor, layer: Layer) -> Tensor:
        """What the architecture does to queries and keys [n, H + K, D] before rotating them: nothing, here."""
        return heads

    def _combine(self, x: Tensor, mixed: Tensor, layer: Layer) -> Tensor:
        """Attention's output projection and the gated MLP, both added to the residual stream in place."""
        x.addmm_(mixed, layer.out_t)
        fused = torch.mm(self.normed(x, layer.post_norm), layer.gate_up_t)
        return x.addmm_(F.silu(fused[:, : self.inner]).mul_(fused[:, self.inner :]), layer.down_t)

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm over the last dimension D in float32, returned in x's dtype.

        x / sqrt(mean(x^2) + eps) * w = x / sqrt(sum(x^2) + D eps) * (w sqrt(D)): half the operations, since the square
        root of a sum of squares is one operation and so is adding in quadrature. ``weight`` holds w sqrt(D).
        """
        wide = x.float()
        size = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).hypot_(self._floor[x.shape[-1]])
        return (wide / size).mul_(weight).to(x.dtype)


def _rotate(heads: Tensor, rotation: Tensor, out: Tensor) -> None:
    """Turn each channel pair of [n, heads, D] by complex [n, 1, D/2], in float32, into ``out`` (may be ``heads``)."""
    pairs = torch.view_as_complex(heads.float().unflatten(-1, (-1, 2)))
    if out.dtype == torch.float32:
        torch.mul(pairs, rotation, out=torch.view_as_complex(out.unflatten(-1, (-1, 2))))
    else:
        out.copy_(torch.view_as_real(pairs * rotation).flatten(-2))
