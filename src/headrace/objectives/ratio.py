"""The importance ratio, computed in one place with one rule for its overflow."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from headrace.objectives.inputs import LossInputs, as_stat

LOG_RATIO_BOUND = 20.0
"""exp(20) = 4.9e8: far outside any clip range, far inside float32."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """``value`` = exp(log pi - log pi_anchor) [T] with grad; ``stats`` holds ratio and the count of clamped tokens."""

    value: Tensor
    stats: dict[str, Tensor]


def importance_ratio(x: LossInputs) -> Ratio:
    """r_t = pi(y_t) / pi_anchor(y_t), log clamped to +-20 (gradient 0 outside; counted as ``log_ratio_clamped``)."""
    log_ratio = x.logprob - x.anchor_logprob
    bounded = log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    ratio = bounded.exp()
    outside = as_stat(log_ratio.detach().abs() > LOG_RATIO_BOUND, ratio)
    return Ratio(ratio, {"ratio": ratio.detach(), "log_ratio_clamped": outside})
