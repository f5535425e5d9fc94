"""Qwen3: Llama's shape with an RMS norm over each query and key head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.models.fast_forward.decoder import FusedDecoder, Layer

if TYPE_CHECKING:
    from torch import Tensor


class Qwen3Layer(Layer):
    """``head_norm`` [H + K, D]: the query norm's weight for every query head, then the key norm's."""

    def __init__(self, decoder: FusedDecoder) -> None:
        super().__init__(decoder)
        self.head_norm = decoder.new_norm(decoder.num_heads + decoder.num_kv_heads, decoder.head_dim)


class Qwen3Decoder(FusedDecoder):
    """Adds the head norms between projection and rotation."""

    def _new_layer(self) -> Layer:
        return Qwen3Layer(self)

    def _head_norms(self, layer: Layer) -> Iterator[tuple[str, Tensor]]:
        assert isinstance(layer, Qwen3Layer)
        query, key = layer.head_norm.split([self.num_heads, self.num_kv_heads])
        yield "self_attn.q_norm", self.paired(query)
        yield "self_attn.k_norm", self.paired(key)

    def _head_norm(self, heads: Tensor, layer: Layer) -> Tensor:
        assert isinstance(layer, Qwen3Layer)
        return self.normed(heads, layer.head_norm)
