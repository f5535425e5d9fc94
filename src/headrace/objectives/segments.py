"""Sums over whole sequences, given back to each of their tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def segment_sum(values: Tensor, segment: Tensor) -> Tensor:
    """[T] -> [T]: at every token the sum of ``values`` over the tokens with the same ``segment`` number; with grad.

    Complete because a rollout is never split over micro-batches. Trainable tokens only: nothing masked leaks in.
    """
    return _spread(values, _positions(segment))


def segment_mean(values: Tensor, segment: Tensor) -> Tensor:
    """[T] -> [T]: at every token the mean of ``values`` over its segment; with grad."""
    positions = _positions(segment)
    return _spread(values, positions) / _spread(torch.ones_like(values), positions)


def _positions(segment: Tensor) -> Tensor:
    return torch.unique(segment, return_inverse=True)[1]


def _spread(values: Tensor, positions: Tensor) -> Tensor:
    return torch.zeros_like(values).index_add(0, positions, values)[positions]
