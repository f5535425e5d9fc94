"""BAPO: PPO's surrogate between absolute bounds that are searched anew for every update (see ``bapo_bounds``)."""

from __future__ import annotations

from headrace.objectives.inputs import LossInputs, TokenLoss
from headrace.objectives.ppo_clip import clipped_surrogate


def bapo(x: LossInputs, *, ratio_min: float, ratio_max: float, dual_clip: float | None = None) -> TokenLoss:
    """-min(r A, clip(r, ratio_min, ratio_max) A) [T]: BAPO, arXiv 2510.18927 algorithm 1. The bounds are values of
    ``bapo_bounds``, one pair for a whole update.

    ``dual_clip``: the official code bounds the loss of a negative advantage at -A c, c = 3; the paper does not.
    Stats as in ``ppo_clip``.
    """
    return clipped_surrogate(x, ratio_min=ratio_min, ratio_max=ratio_max, dual_clip=dual_clip)
