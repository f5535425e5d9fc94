"""The critic's regression on returns, with the change of a value clipped."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.objectives.inputs import TokenLoss, as_stat


def value_loss(value: Tensor, old_value: Tensor, returns: Tensor, *, clip: float | None) -> TokenLoss:
    """max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2) / 2 [T]; ``clip`` None: (V - R)^2 / 2.

    ``value`` [T] with grad, the others without. Clipping values is a convention of implementations, not in the PPO
    paper (arXiv 1707.06347). The gradient is 0 where the clipped form is the larger.

    Stats: ``value_clip`` (tokens without gradient), ``value_error`` (V - R). The first is absent without ``clip``.
    """
    error = value - returns
    loss = error.square()
    stats = {"value_error": error.detach()}
    if clip is not None:
        held = torch.minimum(torch.maximum(value, old_value - clip), old_value + clip)
        other = (held - returns).square()
        stats["value_clip"] = as_stat(((value - old_value).abs() > clip) & (other > loss), loss)
        loss = torch.maximum(loss, other)
    return TokenLoss(value=loss / 2, stats=stats)
