"""Which rollouts of a group take part in the loss, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from headrace.records import Group, Rollout


def masked_reason(rollout: Rollout) -> str:
    """'' for a rollout that trains, else 'unjudged', 'empty' (no trainable token) or 'non_finite' (a behaviour
    log-probability that is NaN or infinite)."""
    if rollout.verdict is None or not rollout.verdict.judged:
        return "unjudged"
    if not rollout.trainable.any():
        return "empty"
    return "" if bool(np.isfinite(rollout.behaviour_logprob[rollout.trainable]).all()) else "non_finite"


def count_masked(groups: Sequence[Group]) -> dict[str, int]:
    """Masked rollouts of the groups that train, by reason."""
    reasons = (masked_reason(r) for g in groups if g.signal for r in g.rollouts)
    return dict(Counter(reason for reason in reasons if reason))
