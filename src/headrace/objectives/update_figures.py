"""What an objective may know of a whole update: all its tokens on all ranks, detached, and the figures made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from torch import Tensor

from headrace.errors import RecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTokens:
    """Every trainable token of one update, over all micro-batches and ranks, in one fixed order; detached, all [N].

    ``logprob`` is taken at the weights the update starts from. ``noise`` is uniform in [0, 1), float64, and a function
    of (seed, update, rollout, position) alone, so that a random pick depends on no split. Raises ``RecordError`` when a
    field has another shape than ``logprob``.
    """

    logprob: Tensor
    anchor_logprob: Tensor
    advantage: Tensor
    segment: Tensor
    noise: Tensor
    entropy: Tensor | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None and value.shape != self.logprob.shape:
                raise RecordError(f"update tokens: {entry.name} is {list(value.shape)}, not {list(self.logprob.shape)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFigures:
    """``values`` become keyword arguments of the kernel; ``selected`` [N] bool is cut up into ``LossInputs.selected``.

    ``stats`` are figures of the update for its metrics, by name; no kernel sees them.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    selected: Tensor | None = None
    stats: Mapping[str, float] = field(default_factory=dict)
