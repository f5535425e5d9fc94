"""The output head in float32, whatever dtype its weight is published in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

TILE = 8192  # rows of a narrower weight that are widened at a time


def head_logits(hidden: Tensor, weight: Tensor) -> Tensor:
    """float32 logits [n, V] of hidden states [n, H] (any dtype) and a head weight [V, H].

    The weight enters with the values it is stored with (rounded to bfloat16, say); product and sum are float32. A
    narrower weight is widened in tiles, so no float32 copy of the head exists.
    """
    hidden = hidden.float()
    if weight.dtype == torch.float32:
        return hidden @ weight.t()
    logits = hidden.new_empty(len(hidden), len(weight))
    for start in range(0, len(weight), TILE):
        torch.mm(hidden, weight[start : start + TILE].float().t(), out=logits[:, start : start + TILE])
    return logits


def chosen_logprob(logits: Tensor, token: Tensor) -> Tensor:
    """float32 log-probability [n] of int64 tokens [n] under softmax of float32 logits [n, V]."""
    return torch.log_softmax(logits, dim=-1).gather(1, token[:, None])[:, 0]
