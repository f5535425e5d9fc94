"""A widely read article's form of BAPO: fixed bounds, and a weight between positive and negative tokens."""

from __future__ import annotations

import math
from typing import Literal

import torch

from headrace.objectives.bapo_bounds import share_of
from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected
from headrace.objectives.ratio import importance_ratio
from headrace.objectives.update_figures import UpdateFigures, UpdateTokens


def balanced_clip(x: LossInputs, *, ratio_min: float, ratio_max: float, balance: float) -> TokenLoss:
    """-2 lambda 1[r < ratio_max] r A where A > 0, -2 (1 - lambda) 1[r > ratio_min] r A where A < 0, 0 where A = 0 [T];
    lambda = ``balance``, a value of ``balance_weight``. Article form, in neither the paper nor the code of BAPO.

    At lambda = .5 the gradient is that of ``ppo_clip`` with the same range (its values differ by constants).
    Stats: ``ratio``, ``log_ratio_clamped``, ``clip_low`` and ``clip_high`` (tokens left out on that side).
    """
    ratio = importance_ratio(x)
    r, a = ratio.value, x.advantage
    seen = r.detach()
    inside = torch.where(a > 0, seen < ratio_max, seen > ratio_min)
    weight = torch.where(a > 0, r.new_tensor(2 * balance), r.new_tensor(2 * (1 - balance)))
    stats = ratio.stats | {
        "clip_low": as_stat((a < 0) & ~inside, r),
        "clip_high": as_stat((a > 0) & ~inside, r),
    }
    return TokenLoss(value=corrected(-weight * inside * r * a, x), stats=stats)


def balance_weight(
    x: UpdateTokens,
    *,
    ratio_min: float,
    ratio_max: float,
    target: float = 0.45,
    beta: float = 5.0,
    mode: Literal["restore", "printed", "exact"] = "restore",
) -> UpdateFigures:
    """lambda = sigmoid(-beta (C - target)), C the unweighted share P / (P + N) of the tokens inside the bounds, P the
    sum of r A over A > 0, r < ratio_max and N that of r |A| over A < 0, r > ratio_min.

    ``mode`` 'printed' takes the article's sign, +beta, which answers a small share with a smaller weight; 'exact' takes
    the weight at which the weighted share is the target (1/2 where one side is empty and no weight can do it).
    beta near 1 / (target (1 - target)) = 4.04 holds the weighted share within .44-.45 for shares of .3-.6.

    Values: ``balance``. Stats: ``balance``, ``positive_share_raw`` (C), ``positive_share`` (weighted).
    """
    r, a = importance_ratio(x).value.detach().double(), x.advantage.detach().double()
    positive = float((r * a)[(a > 0) & (r < ratio_max)].sum())
    negative = float((-r * a)[(a < 0) & (r > ratio_min)].sum())
    share = share_of(positive, negative)
    if mode == "exact":
        balance = _exact(share, target)
    else:
        balance = 1 / (1 + math.exp((beta if mode == "restore" else -beta) * (share - target)))
    weighted = share_of(balance * share, (1 - balance) * (1 - share))
    stats = {"balance": balance, "positive_share_raw": share, "positive_share": weighted}
    return UpdateFigures(values={"balance": balance}, stats=stats)


def _exact(share: float, target: float) -> float:
    if share in (0.0, 1.0):
        return 0.5
    return target * (1 - share) / (target * (1 - share) + (1 - target) * share)
