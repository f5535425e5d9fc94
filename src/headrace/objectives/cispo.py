"""CISPO: the importance weight is capped and detached, so every token keeps its gradient."""

from __future__ import annotations

from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected
from headrace.objectives.ratio import importance_ratio


def cispo(x: LossInputs, *, ratio_max: float, ratio_min: float = 0.0) -> TokenLoss:
    """-sg(clamp(r, ratio_min, ratio_max)) A log pi [T]: MiniMax-M1, arXiv 2506.13585 eq. 4-5.

    ``ratio_max`` and ``ratio_min`` are absolute caps on the ratio, not offsets from 1. ScaleRL (arXiv 2510.13786)
    caps from above only (``ratio_min`` 0), for both signs of A. The loss value contains log pi; only its gradient
    -w A grad log pi means anything.

    Stats: ``ratio``, ``log_ratio_clamped``, ``ratio_capped`` (above the cap), with a lower cap ``ratio_raised``, and
    ``surrogate`` (clamp(r) |A|, the size of the token's weight on grad log pi).
    Nothing is clipped away here, so there is no clip fraction.
    """
    ratio = importance_ratio(x)
    seen = ratio.value.detach()
    weight = seen.clamp(ratio_min, ratio_max)
    stats = ratio.stats | {
        "ratio_capped": as_stat(seen > ratio_max, seen),
        "surrogate": weight * x.advantage.abs(),
    }
    if ratio_min > 0:
        stats["ratio_raised"] = as_stat(seen < ratio_min, seen)
    return TokenLoss(value=corrected(-weight * x.advantage * x.logprob, x), stats=stats)
