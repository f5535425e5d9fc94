"""Forward passes over micro-batches: what a model says of their trainable tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headrace.models.lm_head import HeadScores, head_logprobs
from headrace.models.logprobs import head_weight, predicting_states, row_tensors
from headrace.records import MicroBatch, PackedBatch


class Scorer:
    """One causal language model on one device."""

    def __init__(self, model: Any, device: str) -> None:
        self.model = model
        self.device = device
        head_weight(model)  # a model whose head cannot be used is refused at once

    def scores(self, batch: PackedBatch, micro: MicroBatch, *, entropy_grad: bool = False) -> HeadScores:
        """Log-probability and entropy [T] of the trainable tokens, of the distribution at their own temperature."""
        rows = row_tensors(micro, self.device)
        states = predicting_states(self.model, rows)
        return head_logprobs(
            states,
            head_weight(self.model),
            rows.target,
            temperature=self._temperature(batch, micro),
            entropy_grad=entropy_grad,
        )

    @torch.no_grad()
    def scores_only(self, batch: PackedBatch, micro: MicroBatch) -> HeadScores:
        """``scores`` without a gradient; of no token when none is trainable."""
        if not micro.trainable.any():
            none = torch.zeros(0, device=self.device)
            return HeadScores(none, none)
        return self.scores(batch, micro)

    def flat(self, micro: MicroBatch, values: npt.NDArray[Any]) -> Tensor:
        """Values [R, W] at the trainable tokens, [T] on the model's device, in their own dtype."""
        return torch.from_numpy(values[micro.trainable]).to(self.device)

    def _temperature(self, batch: PackedBatch, micro: MicroBatch) -> float | Tensor:
        first = float(batch.temperature[0]) if len(batch.temperature) else 1.0
        if np.all(batch.temperature == first):
            return first
        return torch.from_numpy(batch.temperature[micro.segment[micro.trainable]]).to(self.device)
