"""What the embedded engine asks of a model; the fused forwards and the Hugging Face module both answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from headrace.models.fast_forward import CacheView


class Decoder(Protocol):
    """One set of weights and the forward over them. Not thread-safe; called under inference mode."""

    dtype: torch.dtype
    device: torch.device

    def decode(self, tokens: Tensor, positions: Tensor, view: CacheView) -> Tensor:
        """One token a row: int64 tokens and positions [n] -> float32 logits [n, V]; keys and values are appended."""

    def prefill(self, tokens: Tensor) -> list[Tensor]:
        """Keys and values of int64 tokens [B, P] at positions 0.., as planes [B, heads, P, D]; padded on the right."""

    def score(self, tokens: Tensor) -> Tensor:
        """float32 log-probability [B, L-1] of tokens 1.. of int64 [B, L] given what stands before, temperature 1."""

    def parameter_names(self) -> set[str]:
        """Names a full weight update must carry."""

    def load(self, name: str, value: Tensor) -> None:
        """Overwrite one parameter, named as in the Hugging Face model."""

    def copy_from(self, other: Any) -> None:
        """Take over the weights of a decoder of the same model."""
