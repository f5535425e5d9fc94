"""SAPO: a soft gate on the ratio in place of a clip range."""

from __future__ import annotations

import torch

from headrace.objectives.inputs import LossInputs, TokenLoss, corrected
from headrace.objectives.ratio import importance_ratio


def sapo(x: LossInputs, *, tau_pos: float = 1.0, tau_neg: float = 1.05) -> TokenLoss:
    """-A (4 / tau) sigmoid(tau (r - 1)) [T], tau = ``tau_pos`` where A > 0 and ``tau_neg`` elsewhere: SAPO, arXiv
    2511.20347. At r = 1 the slope in r is 1, as without a gate; it falls smoothly on both sides.

    Stats: ``ratio``, ``log_ratio_clamped``, ``gate`` (share of the ungated gradient that is left, 1 at r = 1).
    """
    ratio = importance_ratio(x)
    r, a = ratio.value, x.advantage
    tau = torch.where(a > 0, r.new_tensor(tau_pos), r.new_tensor(tau_neg))
    gate = torch.sigmoid(tau * (r - 1))
    open_share = 4 * gate.detach() * (1 - gate.detach())
    return TokenLoss(value=corrected(-a * gate * 4 / tau, x), stats=ratio.stats | {"gate": open_share})
