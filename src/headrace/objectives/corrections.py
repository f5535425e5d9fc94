"""Importance corrections: detached weights for what the ratio in the objective does not cover."""

from __future__ import annotations

from torch import Tensor

from headrace.objectives.ratio import LOG_RATIO_BOUND

TRUNCATION = 2.0
"""Cap of the truncated correction: the value its authors and most frameworks use (see docs/algorithms.md)."""


def truncated_importance(target_logprob: Tensor, behaviour_logprob: Tensor, *, cap: float = TRUNCATION) -> Tensor:
    """min(pi_target / pi_behaviour, cap) [T], detached: truncated importance sampling, token by token.

    With a proximal anchor the objective's ratio only covers what this step's updates changed; this weight covers the
    way from the weights that sampled the token to the anchor (decoupled objective, arXiv 2505.24298 eq. 5).
    """
    log_weight = (target_logprob - behaviour_logprob).detach()
    return log_weight.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp().clamp(max=cap)
