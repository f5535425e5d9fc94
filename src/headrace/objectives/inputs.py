"""What every objective takes and gives: flat tensors over the trainable tokens of one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from headrace.errors import RecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """Trainable tokens only, all tensors [T] and on one device; one float dtype (float64 works throughout).

    ``segment`` numbers the rollout a token belongs to, for objectives that look at whole sequences.
    Raises ``RecordError`` when a field has another shape than ``logprob``.
    """

    logprob: Tensor  # [T], log pi(y_t) at the sampling temperature, with grad
    anchor_logprob: Tensor  # [T], what the ratio divides by (behaviour or proximal), no grad
    advantage: Tensor  # [T]
    segment: Tensor  # [T] int64
    reference_logprob: Tensor | None = None  # [T]
    entropy: Tensor | None = None  # [T], nats, over the whole vocabulary
    correction_weight: Tensor | None = None  # [T], multiplies the token's loss, no grad
    selected: Tensor | None = None  # [T] bool, tokens that a rule over the whole update picked

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None and value.shape != self.logprob.shape:
                raise RecordError(f"loss input {entry.name} is {list(value.shape)}, logprob {list(self.logprob.shape)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """A loss and its figures, token by token. Averaging is not a kernel's business: ``(value * loss_weight).sum()``."""

    value: Tensor  # [T], with grad; minimised
    stats: Mapping[str, Tensor]  # each [T], detached; fractions are 0/1 tensors


def corrected(value: Tensor, x: LossInputs) -> Tensor:
    """``value`` [T] times the correction weight where there is one."""
    return value if x.correction_weight is None else value * x.correction_weight


def wanted(value: Tensor | None, name: str, by: str) -> Tensor:
    """An optional input that ``by`` cannot do without. Raises ``RecordError`` when it is absent."""
    if value is None:
        raise RecordError(f"{by} needs the loss input {name}, and it is absent")
    return value


def as_stat(condition: Tensor, like: Tensor) -> Tensor:
    """A boolean [T] as a 0/1 tensor of ``like``'s dtype."""
    return condition.to(like.dtype).detach()


def stack_inputs(parts: list[LossInputs]) -> LossInputs:
    """Join the inputs of several micro-batches; a field is present when it is present in every part."""
    joined: dict[str, Tensor] = {}
    for entry in fields(LossInputs):
        values = [getattr(part, entry.name) for part in parts]
        if all(value is not None for value in values):
            joined[entry.name] = torch.cat(values)
    return LossInputs(**joined)
