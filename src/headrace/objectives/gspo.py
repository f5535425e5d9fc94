"""GSPO: one importance ratio for a whole sequence, the geometric mean of its tokens' ratios."""

from __future__ import annotations

import torch

from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected
from headrace.objectives.ratio import importance_ratio
from headrace.objectives.segments import segment_mean


def gspo(x: LossInputs, *, clip_low: float = 3e-4, clip_high: float = 4e-4, token_form: bool = False) -> TokenLoss:
    """max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high)) [T], s = exp(mean over the sequence of log r_t): GSPO, arXiv
    2507.18071, given to every token, so that the weights of ``sample_mean`` make it the paper's mean over
    sequences.

    ``token_form``: s becomes sg[s] pi / sg[pi] (GSPO-token): the same values, and each token's gradient is its own
    s A grad log pi. Under ``sample_mean`` both forms have one gradient where A is constant in a sequence. A log ratio
    beyond +-20 counts as +-20 in the mean.

    Stats: ``ratio`` (the sequence's, at each of its tokens), ``log_ratio_clamped``, ``clip_low`` and ``clip_high``
    (tokens of sequences whose gradient that side removed), ``surrogate`` (|min(s A, clip(s) A)|).
    """
    ratio = importance_ratio(x)
    mean = segment_mean(ratio.log, x.segment)
    s, a = (mean.detach() + x.logprob - x.logprob.detach() if token_form else mean).exp(), x.advantage
    value = torch.maximum(-a * s, -a * s.clamp(1 - clip_low, 1 + clip_high))
    seen = mean.detach().exp()
    stats = {
        "ratio": seen,
        "log_ratio_clamped": ratio.stats["log_ratio_clamped"],
        "clip_low": as_stat((a < 0) & (seen < 1 - clip_low), s),
        "clip_high": as_stat((a > 0) & (seen > 1 + clip_high), s),
        "surrogate": value.detach().abs(),
    }
    return TokenLoss(value=corrected(value, x), stats=stats)
