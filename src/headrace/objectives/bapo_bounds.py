"""The search for BAPO's clip bounds, over all tokens of an update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

from headrace.objectives.ratio import importance_ratio
from headrace.objectives.update_figures import UpdateFigures, UpdateTokens

Contribution = Literal["surrogate", "active"]
End = Literal["stop", "clamp"]


def bapo_bounds(
    x: UpdateTokens,
    *,
    target_share: float,
    low_start: float,
    low_end: float,
    high_start: float,
    high_end: float,
    low_step: float,
    high_step: float,
    order: Literal["high_first", "low_first"] = "high_first",
    metric: Literal["share", "ratio"] = "share",
    contribution: Contribution = "surrogate",
    end: End = "stop",
) -> UpdateFigures:
    """Widen the upper bound and raise the lower one until positive tokens carry ``target_share`` of the loss: BAPO,
    arXiv 2510.18927 eq. 8 and algorithm 1. Both bounds start anew at every update.

    ``order``: the bound that is moved to its end first (paper: high, official code: low). ``metric`` 'share' = P / (P +
    N), 'ratio' = P / N as in the code (a share s is the ratio s / (1 - s)), P and N the summed contributions of tokens
    with A > 0 and A < 0. ``contribution`` 'surrogate': |min(r A, clip(r) A)|, so that A (r up to the bound) and |A| (r,
    at least the bound); raising the lower bound can then only lower the share, and an upper bound that does not reach
    the target sends the lower one to its end for nothing. 'active': |r A| of tokens that still have gradient, where
    both bounds raise the share, as the paper's prose has it. ``end``: a step that would pass the end is not taken
    (paper), or is shortened to it (code). Steps are counted, so that an end that is a whole number of steps away is
    reached exactly.

    Tokens are summed without the behaviour probability that the paper's eq. 8 multiplies (the code does not either).
    Values: ``ratio_min``, ``ratio_max``. Stats: the same as ``bound_low`` and ``bound_high``, and ``positive_share`` at
    them, whatever the metric. Without tokens on either side there is nothing to balance: the bounds stay at
    their start and the share counts as .5.
    """
    sides = _Sides(x, contribution)
    goal = target_share if metric == "share" else target_share / (1 + target_share)
    lows = list(_rungs(low_start, low_end, low_step, end))
    highs = list(_rungs(high_start, high_end, high_step, end))
    low, high = 0, 0
    if not sides.empty:
        low, high = _search(lambda i, j: sides.share(lows[i], highs[j]) >= goal, len(lows) - 1, len(highs) - 1, order)
    ratio_min, ratio_max = lows[low], highs[high]
    stats = {
        "bound_low": ratio_min,
        "bound_high": ratio_max,
        "positive_share": sides.share(ratio_min, ratio_max),
    }
    return UpdateFigures(values={"ratio_min": ratio_min, "ratio_max": ratio_max}, stats=stats)


def _search(met: Callable[[int, int], bool], low_steps: int, high_steps: int, order: str) -> tuple[int, int]:
    """Step counts (low, high) at which ``met`` first holds along the order's path, or at its end."""
    low = high = 0
    while not met(low, high):
        if high < high_steps and (order == "high_first" or low == low_steps):
            high += 1
        elif low < low_steps:
            low += 1
        else:
            break
    return low, high


def _rungs(start: float, stop: float, step: float, end: End) -> Iterator[float]:
    """start, start + step, ... up to ``stop``; multiples of the step, so no round-off is carried along."""
    steps = (stop - start) / step
    whole = math.floor(steps + 1e-9)
    for i in range(whole + 1):
        yield stop if i and math.isclose(i, steps, abs_tol=1e-9) else start + i * step
    if end == "clamp" and steps - whole > 1e-9:
        yield stop


class _Sides:
    """Ratios and sizes of the advantage, positive and negative apart, in float64 on the CPU."""

    def __init__(self, x: UpdateTokens, contribution: Contribution) -> None:
        r, a = importance_ratio(x).value.detach().double().cpu(), x.advantage.detach().double().cpu()
        self._positive, self._negative = (r[a > 0], a[a > 0]), (r[a < 0], -a[a < 0])
        self._active = contribution == "active"
        self.empty = not len(r[a != 0])

    def share(self, ratio_min: float, ratio_max: float) -> float:
        (r_pos, a_pos), (r_neg, a_neg) = self._positive, self._negative
        if self._active:
            positive = _total(r_pos * a_pos * (r_pos < ratio_max))
            negative = _total(r_neg * a_neg * (r_neg > ratio_min))
        else:
            positive = _total(r_pos.clamp(max=ratio_max) * a_pos)
            negative = _total(r_neg.clamp(min=ratio_min) * a_neg)
        return share_of(positive, negative)


def share_of(positive: float, negative: float) -> float:
    """P / (P + N), .5 if both are 0: no side outweighs the other."""
    return positive / (positive + negative) if positive + negative > 0 else 0.5


def _total(values: Tensor) -> float:
    return float(torch.sum(values))
