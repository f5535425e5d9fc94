"""Which tokens of an update move its entropy: the covariance, and the shares of four classes of tokens."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor


def entropy_covariance(logprob: Tensor, advantage: Tensor, clipped: Tensor) -> float | None:
    """Cov(log pi, A X) over the tokens [N] of an update, X = 0 where ``clipped`` took the gradient: the entropy-clip
    rule of BAPO, arXiv 2510.18927. The entropy falls as it is positive. None without tokens."""
    if not logprob.numel():
        return None
    lp, kept = logprob.detach().double(), advantage.double() * ~clipped.bool()
    return float(((lp - lp.mean()) * (kept - kept.mean())).mean())


def token_class_shares(logprob: Tensor, advantage: Tensor, *, p_split: float | None = None) -> dict[str, float]:
    """Shares of low and high probability by low and high advantage among the tokens [N] with A != 0; they sum to 1.

    High probability: pi >= ``p_split``, by default the median (given back as ``p_split``); high advantage: A > 0.
    Empty without such tokens.
    """
    kept = advantage != 0
    lp, positive = logprob.detach()[kept].double(), advantage[kept] > 0
    if not lp.numel():
        return {}
    split = float(np.median(lp.cpu().numpy())) if p_split is None else math.log(p_split)
    likely = lp >= split
    return {
        "p_split": math.exp(split),
        "low_prob_low_adv": _share(~likely & ~positive),
        "low_prob_high_adv": _share(~likely & positive),
        "high_prob_low_adv": _share(likely & ~positive),
        "high_prob_high_adv": _share(likely & positive),
    }


def _share(chosen: Tensor) -> float:
    return float(chosen.double().mean())
