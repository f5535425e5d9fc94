"""GMPO: the geometric mean of a sequence's token ratios, each clipped before the mean is taken."""

from __future__ import annotations

import torch

from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected
from headrace.objectives.ratio import importance_ratio
from headrace.objectives.segments import segment_mean


def gmpo(x: LossInputs, *, clip_low: float = 0.4, clip_high: float = 0.4) -> TokenLoss:
    """-A exp(mean over the sequence of c_t) [T], c_t = sgn(A) min(sgn(A) d_t, sgn(A) clip(d_t, -clip_low, clip_high)),
    d_t = log r_t: GMPO, arXiv 2507.20673. The range is in log space. The weights of ``sample_mean`` make it the paper's
    mean over sequences.

    Clipping is one-sided as in PPO: a token that moved against its advantage keeps its full log ratio and gradient.

    Stats: ``ratio`` (token), ``log_ratio_clamped``, ``clip_low`` and ``clip_high`` (tokens cut on that side),
    ``surrogate`` (|A| times the clipped mean).
    """
    ratio = importance_ratio(x)
    d, a = ratio.log, x.advantage
    sign = a.sign()
    cut = sign * torch.minimum(sign * d, sign * d.clamp(-clip_low, clip_high))
    value = -a * segment_mean(cut, x.segment).exp()
    stats = ratio.stats | {
        "clip_low": as_stat((a < 0) & (d.detach() < -clip_low), d),
        "clip_high": as_stat((a > 0) & (d.detach() > clip_high), d),
        "surrogate": value.detach().abs(),
    }
    return TokenLoss(value=corrected(value, x), stats=stats)
