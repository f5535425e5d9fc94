"""Choosing tokens from logits by inverse distribution function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 512  # a vocabulary above this is searched in two levels: first the block, then the token in it


def sample(logits: Tensor, temperature: Tensor | None, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """One token a row and its log-probability under softmax(logits / temperature).

    ``logits`` float32 [n, V]; ``temperature`` float32 [n], None when all are 1; ``uniform`` float64 [n] in (0, 1).
    Returns tokens int64 [n] and log-probabilities float32 [n]. A temperature of 0 stands for the point mass on the
    largest logit: that token, log-probability 0. A token of probability zero is never returned.
    """
    if temperature is None:
        logprob = torch.log_softmax(logits, dim=-1)
        token = _inverse_cdf(logprob.exp(), uniform)
        return token, logprob.gather(1, token[:, None])[:, 0]
    greedy = temperature == 0
    logprob = torch.log_softmax(logits / torch.where(greedy, 1.0, temperature)[:, None], dim=-1)
    token = torch.where(greedy, logits.argmax(dim=-1), _inverse_cdf(logprob.exp(), uniform))
    return token, torch.where(greedy, 0.0, logprob.gather(1, token[:, None])[:, 0])


def _inverse_cdf(probability: Tensor, uniform: Tensor) -> Tensor:
    """First index whose cumulative probability exceeds ``uniform`` times the row's sum; int64 [n]."""
    width = probability.shape[1]
    if width <= BLOCK:
        return _search(probability, uniform)
    blocks = F.pad(probability, (0, -width % BLOCK)).view(len(probability), -1, BLOCK)
    weight = blocks.sum(dim=-1).to(torch.float64)
    edge = weight.cumsum(dim=-1)
    block = _first_above(edge, _below(uniform * edge[:, -1], edge[:, -1]))[:, None]
    mass = weight.gather(1, block)[:, 0]
    # The share of the block that lies below the target is a uniform number again.
    share = (uniform * edge[:, -1] - (edge.gather(1, block)[:, 0] - mass)) / mass
    inside = blocks.gather(1, block[:, :, None].expand(-1, 1, BLOCK))[:, 0]
    return block[:, 0] * BLOCK + _search(inside, share.clamp(0.0, 1.0))


def _search(probability: Tensor, uniform: Tensor) -> Tensor:
    edge = probability.cumsum(dim=-1, dtype=torch.float64)
    return _first_above(edge, _below(uniform * edge[:, -1], edge[:, -1]))


def _below(target: Tensor, total: Tensor) -> Tensor:
    """Keep a target strictly under the total, which a product may round up to."""
    return torch.minimum(target, torch.nextafter(total, torch.zeros_like(total)))


def _first_above(edge: Tensor, target: Tensor) -> Tensor:
    """An index of probability zero has its predecessor's edge, so it is never the first above anything."""
    return torch.searchsorted(edge, target[:, None], right=True)[:, 0]
