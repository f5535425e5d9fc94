"""PPO's clipped surrogate, token by token."""

from __future__ import annotations

import torch

from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected
from headrace.objectives.ratio import importance_ratio


def ppo_clip(x: LossInputs, *, clip_low: float, clip_high: float, dual_clip: float | None = None) -> TokenLoss:
    """max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)) [T]: PPO, arXiv 1707.06347 eq. 7; two ranges as in DAPO,
    arXiv 2503.14476 eq. 8 (``clip_high`` > ``clip_low``).

    ``dual_clip`` c > 1 bounds the loss of a negative advantage by -A c (arXiv 1912.09729 eq. 5). The gradient is
    exactly 0 where A > 0 and r > 1 + clip_high, where A < 0 and r < 1 - clip_low, and where A < 0 and r > c.

    Stats: ``ratio``, ``log_ratio_clamped``, ``clip_low`` and ``clip_high`` (tokens whose gradient that side removed;
    a ratio outside the range on the side where clipping does nothing is not counted), ``dual_clip``, ``surrogate``
    (|min(r A, clip(r) A)|, what the token adds to its side of the loss; before dual clip and correction).
    """
    return clipped_surrogate(x, ratio_min=1 - clip_low, ratio_max=1 + clip_high, dual_clip=dual_clip)


def clipped_surrogate(
    x: LossInputs, *, ratio_min: float, ratio_max: float, dual_clip: float | None = None
) -> TokenLoss:
    """The same with absolute caps on the ratio: max(-A r, -A clip(r, ratio_min, ratio_max)) [T]."""
    ratio = importance_ratio(x)
    r, a = ratio.value, x.advantage
    value = torch.maximum(-a * r, -a * r.clamp(ratio_min, ratio_max))
    seen = r.detach()
    stats = ratio.stats | {
        "clip_low": as_stat((a < 0) & (seen < ratio_min), r),
        "clip_high": as_stat((a > 0) & (seen > ratio_max), r),
        "surrogate": value.detach().abs(),
    }
    if dual_clip is not None:
        over = (a < 0) & (seen > dual_clip)
        value = torch.where(over, -a * dual_clip, value)
        stats["dual_clip"] = as_stat(over, r)
    return TokenLoss(value=corrected(value, x), stats=stats)
