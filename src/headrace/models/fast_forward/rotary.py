"""Rotary position tables, computed once and looked up by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

# Variants whose frequencies do not depend on how long the sequence has become.
STATIC_ROPE_TYPES = ("default", "linear", "llama3", "yarn")


class RotaryTable:
    """exp(i * position * frequency), scaled as the model's own rotary module scales it.

    One complex product then turns a pair of channels; the frequencies come from the model's module, so every variant
    with fixed frequencies is covered. Rows are added by doubling as positions ask for them.
    """

    def __init__(self, module: Any, max_positions: int) -> None:
        self._frequency: Tensor = module.inv_freq.float()
        self._scaling = float(module.attention_scaling)
        self._max = max_positions
        self._table = self._rows(min(max_positions, 512))

    def at(self, positions: Tensor, highest: int) -> Tensor:
        """Rows complex64 [n, head_dim / 2] for int64 positions [n], none of them above ``highest``."""
        if highest >= len(self._table):
            self._table = self._rows(min(self._max, max(highest + 1, 2 * len(self._table))))
        return self._table.index_select(0, positions)

    def _rows(self, count: int) -> Tensor:
        position = torch.arange(count, device=self._frequency.device, dtype=torch.float32)
        angle = position[:, None] * self._frequency
        return torch.complex(angle.cos() * self._scaling, angle.sin() * self._scaling)
