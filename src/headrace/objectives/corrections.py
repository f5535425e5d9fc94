"""Importance corrections: detached weights for what the ratio in the objective does not cover."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from headrace.objectives.ratio import bounded
from headrace.objectives.segments import segment_mean, segment_sum

TRUNCATION = 2.0
"""Cap of the truncated correction: the value its authors and most frameworks use (see docs/algorithms.md)."""

Mode = Literal["truncate", "mask"]
Level = Literal["token", "sequence", "geometric"]


def importance_weight(
    target_logprob: Tensor,
    behaviour_logprob: Tensor,
    segment: Tensor,
    *,
    mode: Mode = "truncate",
    level: Level = "token",
    low: float = 0.0,
    high: float = TRUNCATION,
) -> Tensor:
    """w = pi_target / pi_behaviour at each token [T], detached, kept within bounds.

    ``level`` 'token': of the token alone; 'sequence': the product over its sequence; 'geometric': its geometric mean
    (the ratio of GSPO, not the importance weight of the sequence). The log weight is held within +-20 at its level.
    ``mode`` 'truncate': min(w, high), ``low`` has no part in it; 'mask': w inside [low, high], both ends included, and
    0 outside; low 0 is no lower bound. IcePop is 'mask', 'token', .5, 5. A mask takes tokens out of the loss, never
    out of the counts it is averaged by.

    With a proximal anchor the objective's ratio covers only what this step's updates changed; this weight covers the
    way from the weights that sampled the token to the anchor (decoupled objective, arXiv 2505.24298 eq. 5).
    """
    log_weight = (target_logprob - behaviour_logprob).detach()
    if level == "sequence":
        log_weight = segment_sum(log_weight, segment)
    elif level == "geometric":
        log_weight = segment_mean(log_weight, segment)
    weight = bounded(log_weight).exp()
    if mode == "truncate":
        return weight.clamp(max=high)
    return torch.where((weight >= low) & (weight <= high), weight, torch.zeros_like(weight))


def off_policy_sequence_mask(
    logprob: Tensor, old_logprob: Tensor, advantage: Tensor, segment: Tensor, *, delta: float
) -> Tensor:
    """0 for tokens with A < 0 of a sequence whose mean of log pi_old - log pi is above ``delta``, else 1 [T]: the
    off-policy sequence mask of DeepSeek-V3.2 (arXiv 2512.02556). Detached.

    The mean estimates KL(old || current) on tokens of the old policy. A correction weight is multiplied with it.
    """
    gone = segment_mean((old_logprob - logprob).detach(), segment)
    return (~((advantage < 0) & (gone > delta))).to(logprob.dtype)
