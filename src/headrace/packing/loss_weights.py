"""How token losses are averaged, as data: one float64 weight a token, from the counts of one whole update.

The loss of an update is ``(value * weight).sum()`` over its tokens, so no split over micro-batches, accumulation steps
or ranks can change it. With completions of lengths [10, 30 | 20, 20] (two prompts of two): token_mean 1/80 each,
sample_mean 1/40, 1/120 | 1/80, 1/80, prompt_mean 1/80 each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from headrace.errors import RecordError

Weights = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def token_mean(lengths: Counts, group: Counts) -> Weights:
    """1 / N: every token counts the same (DAPO, arXiv 2503.14476 eq. 8)."""
    return _reciprocal(np.full(lengths.shape, lengths.sum()))


def sample_mean(lengths: Counts, group: Counts) -> Weights:
    """1 / (B L_i): every rollout counts the same (GRPO, arXiv 2402.03300 eq. 3)."""
    return _reciprocal(np.count_nonzero(lengths) * lengths)


def prompt_mean(lengths: Counts, group: Counts) -> Weights:
    """1 / (P N_p): every prompt counts the same, its rollouts' tokens pooled (ScaleRL, arXiv 2510.13786 section 3)."""
    tokens = np.bincount(group, weights=lengths).astype(np.int64) if len(group) else np.zeros(0, np.int64)
    return _reciprocal(np.count_nonzero(tokens) * tokens[group])


LOSS_WEIGHTS: Mapping[str, Callable[[Counts, Counts], Weights]] = {
    "token_mean": token_mean,
    "sample_mean": sample_mean,
    "prompt_mean": prompt_mean,
}


def token_weights(rule: str, lengths: npt.ArrayLike, group: npt.ArrayLike) -> Weights:
    """Weight [N] of each token of every rollout of one update.

    ``lengths`` [N]: trainable tokens that take part, 0 for a rollout that is masked as a whole (it counts in no
    denominator and gets weight 0). ``group`` [N]: integer label of the rollout's prompt. Raises ``RecordError`` on
    unequal shapes or an unknown rule.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    labels = np.asarray(group, dtype=np.int64)
    if counts.shape != labels.shape or counts.ndim != 1:
        raise RecordError(f"lengths {list(counts.shape)} and group {list(labels.shape)} must be [N] each")
    if rule not in LOSS_WEIGHTS:
        raise RecordError(f"loss_weight {rule!r} is none of {', '.join(LOSS_WEIGHTS)}")
    dense = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return np.where(counts > 0, LOSS_WEIGHTS[rule](counts, dense), 0.0)


def _reciprocal(counts: Counts) -> Weights:
    return 1.0 / np.maximum(counts, 1)
