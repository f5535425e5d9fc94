"""REINFORCE++ (arXiv 2501.03262): no value model, no comparison in the group; the whole batch is the baseline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.advantages.scan import Array, discounted_each_from_end, runs, vector
from headrace.advantages.token_rewards import batched_token_rewards
from headrace.advantages.whiten import WHITEN_DDOF, WHITEN_EPS, whiten
from headrace.errors import RecordError


def reinforce_pp(
    reward: npt.ArrayLike,
    lengths: npt.ArrayLike,
    *,
    kl: npt.ArrayLike | None = None,
    kl_coef: float = 0.0,
    gamma: float = 1.0,
    group: npt.ArrayLike | None = None,
    ddof: int = WHITEN_DDOF,
    eps: float = WHITEN_EPS,
) -> Array:
    """Advantages [N] of the trainable tokens of B rollouts end to end, whitened over all of them.

    Return to go of the token rewards (score at the end, minus ``kl_coef`` x ``kl`` [N]) at discount ``gamma``.
    ``reward`` and ``lengths`` [B]. ``group`` [B], any labels: each group's mean reward is subtracted first (the paper's
    'baseline' form, which has its KL term in the loss). Raises ``RecordError`` on unequal lengths.
    """
    scores = vector(reward, "reward")
    if group is not None:
        scores = scores - group_means(scores, group)
    tokens = batched_token_rewards(scores, lengths, kl, kl_coef)
    return whiten(returns_to_go(tokens, lengths, gamma=gamma), ddof=ddof, eps=eps)


def returns_to_go(reward: npt.ArrayLike, lengths: npt.ArrayLike, *, gamma: float) -> Array:
    """G_t = r_t + gamma G_{t+1} [N] within each of the rollouts of ``lengths`` [B] that lie end to end."""
    tokens = vector(reward, "reward")
    counts, ends = runs(lengths, len(tokens))
    decay = np.full(len(tokens), gamma)
    decay[ends[counts > 0] - 1] = 0.0
    return discounted_each_from_end(tokens, decay)


def group_means(reward: Array, group: npt.ArrayLike) -> Array:
    """Mean reward [B] of each rollout's group."""
    labels = np.asarray(group)
    if labels.shape != reward.shape:
        raise RecordError(f"reward {list(reward.shape)} and group {list(labels.shape)} must be [B] each")
    member = np.unique(labels, return_inverse=True)[1]
    return np.asarray((np.bincount(member, weights=reward) / np.bincount(member))[member], dtype=np.float64)
