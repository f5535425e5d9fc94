"""REINFORCE: the plain policy gradient."""

from __future__ import annotations

from headrace.objectives.inputs import LossInputs, TokenLoss, corrected


def reinforce(x: LossInputs) -> TokenLoss:
    """-A log pi [T]: no ratio and nothing clipped, so right only on the policy's own tokens. With leave-one-out
    advantages it is RLOO (arXiv 2402.14740); summed over a sequence it is REINFORCE on whole answers. No statistics.
    """
    return TokenLoss(value=corrected(-x.advantage * x.logprob, x), stats={})
