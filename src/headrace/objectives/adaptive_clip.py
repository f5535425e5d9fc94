"""A clip range that follows the entropy (article form), and the rule by which a factor moves any clip range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

FACTOR_RANGE = (0.5, 2.0)
"""The range is never made narrower than half of its own, nor wider than twice."""


def entropy_clip_factor(entropy: float | None, *, target: float, alpha: float, sign: int = 1) -> float:
    """f = clamp(1 + sign alpha (target - entropy), .5, 2): a widely read article's entropy-adaptive clip.

    ``entropy`` in nats: the mean over the trainable tokens of the update before; None (the first update) gives 1.
    ``sign`` +1 is the article's formula (wider when the entropy is low), -1 what its prose says. Neither is in the BAPO
    paper that the article describes. With base .2, alpha .2, target 1.75, entropy .25: .2 f = .26, or .14 with -1.
    """
    if entropy is None:
        return 1.0
    low, high = FACTOR_RANGE
    return min(max(1.0 + sign * alpha * (target - entropy), low), high)


def scaled_range(
    parameters: Mapping[str, Any], factor: float, *, side: Literal["high", "both"] = "both"
) -> dict[str, Any]:
    """``parameters`` with the clip range made ``factor`` times as wide, on the upper ``side`` alone or on both.

    Offsets (``clip_low``, ``clip_high``) are multiplied; of absolute caps (``ratio_min``, ``ratio_max``) the distance
    from 1 is. A ``ratio_min`` of 0 means "no lower cap" and stays; below 0 no cap ever falls.
    """
    scaled = dict(parameters)
    if "clip_high" in scaled:
        scaled["clip_high"] *= factor
    if "ratio_max" in scaled:
        scaled["ratio_max"] = 1 + factor * (scaled["ratio_max"] - 1)
    if side == "both":
        if "clip_low" in scaled:
            scaled["clip_low"] *= factor
        if scaled.get("ratio_min"):
            scaled["ratio_min"] = max(0.0, 1 - factor * (1 - scaled["ratio_min"]))
    return scaled
