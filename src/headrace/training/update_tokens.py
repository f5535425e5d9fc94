"""All tokens of one update, over micro-batches and ranks, for the figures an objective makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from headrace.objectives.update_figures import UpdateFigures, UpdateTokens
from headrace.records import MicroBatch, PackedBatch
from headrace.training.prepare import Prepared
from headrace.training.ranks import Ranks
from headrace.training.token_noise import token_noise


def tokens_of(
    batch: PackedBatch,
    micro: MicroBatch,
    prepared: Prepared,
    logprob: Tensor,
    anchor: Tensor,
    entropy: Tensor,
    noise: tuple[int, int],
) -> UpdateTokens:
    """One micro-batch's share, detached, in float64. ``noise`` is (run's seed, number of the update)."""
    mask = micro.trainable
    seeds = batch.seeds[micro.segment[mask]]
    return UpdateTokens(
        logprob=logprob.detach().double(),
        anchor_logprob=anchor.detach().double(),
        advantage=prepared.advantage.double(),
        segment=prepared.segment,
        noise=torch.from_numpy(token_noise(noise[0], noise[1], seeds, micro.position_ids[mask])).to(logprob.device),
        entropy=entropy.detach().double(),
    )


def joined(parts: Sequence[UpdateTokens], ranks: Ranks) -> tuple[UpdateTokens, int]:
    """The whole update, rank by rank, and where this rank's tokens begin in it."""
    own = _cat(parts)
    if ranks.size == 1:
        return own, 0
    everybody = ranks.everybody({f.name: getattr(own, f.name).cpu() for f in fields(own)})
    begin = sum(len(other["logprob"]) for other in everybody[: ranks.rank])
    whole = {name: torch.cat([other[name] for other in everybody]).to(own.logprob.device) for name in everybody[0]}
    return UpdateTokens(**whole), begin


def split_selected(figures: UpdateFigures, begin: int, lengths: Sequence[int]) -> list[Tensor | None]:
    """The selection of each of this rank's micro-batches."""
    if figures.selected is None:
        return [None] * len(lengths)
    bounds = begin + np.concatenate([[0], np.cumsum(lengths)])
    return [figures.selected[a:b] for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def _cat(parts: Sequence[UpdateTokens]) -> UpdateTokens:
    first = parts[0]
    if len(parts) == 1:
        return first
    return replace(first, **{f.name: torch.cat([getattr(p, f.name) for p in parts]) for f in fields(first)})
