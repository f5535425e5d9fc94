"""From the reward of a rollout to a reward for each of its tokens. numpy, float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.advantages.scan import Array, runs, vector
from headrace.errors import RecordError


def token_rewards(reward: float, length: int, kl: npt.ArrayLike | None = None, coef: float = 0.0) -> Array:
    """Rewards [L] of the trainable tokens of one rollout: the score at the last one, minus coef x kl on every one.

    ``kl`` [L] is k1 = log pi_old - log pi_reference of each token, detached (None: no penalty); its expectation is the
    divergence, so the penalty's policy gradient is unbiased (RLHF, arXiv 1909.08593 section 2). Raises ``RecordError``
    on another length or a score that is not finite.
    """
    return batched_token_rewards([reward], [length], kl, coef)


def batched_token_rewards(
    reward: npt.ArrayLike, lengths: npt.ArrayLike, kl: npt.ArrayLike | None = None, coef: float = 0.0
) -> Array:
    """``token_rewards`` of B rollouts end to end [N]: ``reward`` and ``lengths`` [B], ``kl`` [N].

    The score of a rollout without a token goes nowhere.
    """
    scores = vector(reward, "reward")
    if not np.isfinite(scores).all():
        raise RecordError("a rollout that trains has a reward that is not finite")
    total = int(np.sum(np.asarray(lengths, np.int64)))
    counts, ends = runs(lengths, total)
    if counts.shape != scores.shape:
        raise RecordError(f"reward {list(scores.shape)} and lengths {list(counts.shape)} must be [B] each")
    tokens = np.zeros(total) if kl is None else -coef * vector(kl, "kl", np.empty(total))
    tokens[ends[counts > 0] - 1] += scores[counts > 0]
    return tokens
