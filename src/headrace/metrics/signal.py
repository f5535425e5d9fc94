"""How much of a batch teaches anything: figures of its groups and advantages. Pure; names as in ``names.py``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.metrics.evaluation import pass_counts
from headrace.records import Group

OUTLIER = 3.0
"""In units of advantages scaled by a standard deviation. One success in a group of 16 is at 3.75, so single ones are
no fault; more than one token in a hundred beyond it is worth a look."""

PASS_RATE_BINS = ("none", "q1", "q2", "q3", "q4", "all")


def effective_fracs(groups: Sequence[Group]) -> dict[str, float]:
    """Shares of the groups and of the rollouts of a batch that have something to teach; empty for no groups.

    A group does when it kept its signal, a rollout when a trainable token of it has an advantage other than 0 (so
    masked and unjudged ones do not). Call it on the groups with their advantages filled in.
    """
    rollouts = [r for g in groups for r in g.rollouts]
    if not rollouts:
        return {}
    teaching = [r.advantage is not None and bool(r.advantage[r.trainable].any()) for r in rollouts]
    return {
        "rollout/effective_group_frac": float(np.mean([g.signal for g in groups])),
        "rollout/effective_frac": float(np.mean(teaching)),
    }


def pass_rate_histogram(groups: Sequence[Group]) -> dict[str, float]:
    """Shares of the prompts by pass rate, one group a prompt; they sum to 1. Empty when nothing was judged.

    ``none`` passed, then the quarters (0, .25], (.25, .5], (.5, .75], (.75, 1), then ``all`` passed. A healthy diet
    has little at both ends. Counts decide, no rounding does.
    """
    bins = [_bin(passes, n) for n, passes in map(pass_counts, groups) if n > 0]
    if not bins:
        return {}
    shares = np.bincount(bins, minlength=len(PASS_RATE_BINS)) / len(bins)
    return {f"rollout/pass_rate_{name}_frac": float(s) for name, s in zip(PASS_RATE_BINS, shares, strict=True)}


def advantage_figures(advantage: npt.ArrayLike) -> dict[str, float]:
    """Mean absolute advantage, and share of the tokens beyond ``OUTLIER``, of the trainable tokens [N] of a batch.
    Empty for no token: a mean over nothing is no figure."""
    size = np.abs(np.asarray(advantage, dtype=np.float64))
    if not size.size:
        return {}
    return {
        "loss/advantage_abs_mean": float(size.mean()),
        "loss/advantage_outlier_frac": float((size > OUTLIER).mean()),
    }


def _bin(passes: int, n: int) -> int:
    """Place in ``PASS_RATE_BINS``."""
    if passes == n:
        return len(PASS_RATE_BINS) - 1
    return -(-4 * passes // n)
