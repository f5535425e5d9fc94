"""The importance ratio, computed in one place with one rule for its overflow."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from headrace.objectives.inputs import LossInputs, as_stat
from headrace.objectives.update_figures import UpdateTokens

LOG_RATIO_BOUND = 20.0
"""exp(20) = 4.9e8: far outside any clip range, far inside float32."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """``value`` = exp(``log``) [T], ``log`` = log pi - log pi_anchor [T] bounded, both with grad; ``stats`` holds the
    ratio and the 0/1 count of tokens whose log ratio was bounded."""

    value: Tensor
    log: Tensor
    stats: dict[str, Tensor]


def bounded(log_ratio: Tensor) -> Tensor:
    """A log ratio held within +-20; outside its gradient is 0."""
    return log_ratio.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)


def importance_ratio(x: LossInputs | UpdateTokens) -> Ratio:
    """r_t = pi(y_t) / pi_anchor(y_t), log clamped to +-20 (gradient 0 outside; counted as ``log_ratio_clamped``)."""
    raw = x.logprob - x.anchor_logprob
    log_ratio = bounded(raw)
    ratio = log_ratio.exp()
    outside = as_stat(raw.detach().abs() > LOG_RATIO_BOUND, ratio)
    return Ratio(ratio, log_ratio, {"ratio": ratio.detach(), "log_ratio_clamped": outside})
