"""The divergence from a frozen reference, estimated token by token on samples of the policy."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected, wanted
from headrace.objectives.ratio import LOG_RATIO_BOUND, bounded, importance_ratio

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(logprob: Tensor, reference_logprob: Tensor, estimator: Estimator) -> Tensor:
    """Estimate of KL(pi || reference) [T] on tokens drawn from pi; with d = log reference - log pi:

    k1 = -d, k2 = d^2 / 2, k3 = e^d - 1 - d (d held below 20 in k3 alone, where e^d would overflow). As values k1 and k3
    are unbiased and k2 is biased. As losses on on-policy tokens the expected gradient of k2 is that of KL(pi ||
    reference), that of k3 is the gradient of KL(reference || pi), and that of k1 is 0.
    """
    return _estimate(reference_logprob - logprob, estimator)


def kl_penalty(x: LossInputs, *, estimator: Estimator, coef: float, importance: bool = False) -> TokenLoss:
    """coef x estimate [T], or coef x r x estimate with ``importance``: for tokens of an older policy.

    The ratio r = pi / pi_anchor carries gradient (DeepSeek-V3.2): detached it gives the right value but not the
    gradient of the divergence. The correction weight, which covers the way from the sampler to the anchor, multiplies
    the second form only. The log ratio to the reference is held within +-20, gradient 0 outside.

    Stats: ``kl`` (the estimate without coefficient or ratio), ``kl_log_ratio_clamped``. Raises ``RecordError`` without
    a reference log-probability.
    """
    raw = wanted(x.reference_logprob, "reference_logprob", "kl_penalty") - x.logprob
    estimate = _estimate(bounded(raw), estimator)
    value = coef * estimate
    if importance:
        value = corrected(importance_ratio(x).value * value, x)
    outside = as_stat(raw.detach().abs() > LOG_RATIO_BOUND, estimate)
    return TokenLoss(value=value, stats={"kl": estimate.detach(), "kl_log_ratio_clamped": outside})


def _estimate(d: Tensor, estimator: Estimator) -> Tensor:
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    d = d.clamp(max=LOG_RATIO_BOUND)
    return d.expm1() - d
