"""A value model: the policy's body, copied, under a scalar head in float32 (PPO, arXiv 1707.06347 section 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headrace.models.loading import load_causal_lm
from headrace.models.logprobs import RowTensors, predicting_states

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class ScalarHead(nn.Module):
    """hidden . weight + bias, in float32 whatever the body's dtype; starts at 0 everywhere.

    The product is written as multiply and sum: neither TF32 nor autocast can reach it, forward or backward.
    """

    def __init__(self, hidden_size: int, device: str = "cpu") -> None:
        super().__init__()
        # A row of a matrix, so that weight decay treats it as the weight of a linear layer.
        self.weight = nn.Parameter(torch.zeros(1, hidden_size, dtype=torch.float32, device=device))
        self.bias = nn.Parameter(torch.zeros(1, dtype=torch.float32, device=device))

    def forward(self, hidden: Tensor) -> Tensor:
        """Values [T] of hidden states [T, H], in the head's dtype."""
        return (hidden.to(self.weight.dtype) * self.weight).sum(-1) + self.bias


class ValueModel(nn.Module):
    """Expected return of the states a policy samples in.

    ``body`` is a transformer without its LM head; it has its own copy of the weights. Before the first update every
    value is 0, so the first advantages are those of no critic at all.
    """

    def __init__(self, body: PreTrainedModel) -> None:
        super().__init__()
        self.body = body
        self.head = ScalarHead(body.config.get_text_config().hidden_size, str(body.device))

    @classmethod
    def from_folder(cls, folder: str, *, dtype: str = "float32", device: str = "cpu") -> ValueModel:
        """Body and weights of the causal language model in ``folder``, in evaluation mode (no dropout).

        Raises ``DataError`` naming the folder when it does not hold a causal language model.
        """
        body: Any = load_causal_lm(folder, dtype=dtype, device=device).base_model
        return cls(body).eval()

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def values(self, rows: RowTensors) -> Tensor:
        """Value [T] of the state before each trainable token (what stands at ``rows.source``), with grad."""
        values: Tensor = self.head(predicting_states(self.body, rows))
        return values

    def values_and_ends(self, rows: RowTensors, ends: Tensor) -> tuple[Tensor, Tensor]:
        """``values`` [T], and the value [K] of the state after each token at the flat positions ``ends`` [K] int64."""
        count = len(rows.source)
        target = rows.token_ids.reshape(-1)[ends]
        both = replace(rows, source=torch.cat([rows.source, ends]), target=torch.cat([rows.target, target]))
        values = self.values(both)
        return values[:count], values[count:]
