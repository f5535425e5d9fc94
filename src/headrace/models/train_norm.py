"""RMSNorm with its backward pass written out, in the working dtype of the lean training forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def normalise(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x / rms(x) along the last axis, and 1 / rms(x)."""
    inverse = x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return x * inverse, inverse


def normalise_backward(grad: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """Gradient of ``normalise``'s input; overwrites ``grad``."""
    along = (grad * unit).mean(-1, keepdim=True)
    return grad.addcmul_(unit, along, value=-1).mul_(inverse)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        unit, inverse = normalise(x, eps)
        ctx.save_for_backward(unit, inverse, weight)
        return unit * weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        unit, inverse, weight = ctx.saved_tensors
        grad_weight = (grads[0] * unit).sum(0)
        return normalise_backward(grads[0] * weight, unit, inverse), grad_weight, None
