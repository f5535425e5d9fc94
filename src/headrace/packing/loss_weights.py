"""How token losses are averaged, as data: one float64 weight a token, from the counts of one whole update.

The loss of an update is ``(value * weight).sum()`` over its tokens, so no split over micro-batches, accumulation steps
or ranks can change it. With completions of lengths [10, 30 | 20, 20] (two prompts of two): token_mean 1/80 each,
sample_mean and prompt_sample_mean 1/40, 1/120 | 1/80, 1/80, prompt_mean 1/80 each, constant with horizon 50 1/200 each.

A rollout without a token that takes part counts in no denominator, and neither does a prompt all of whose rollouts are
such. All rules but ``constant`` sum to 1 over the tokens of an update.
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
    tokens = _per_group(lengths, group)
    return _reciprocal(np.count_nonzero(tokens) * tokens[group])


def prompt_sample_mean(lengths: Counts, group: Counts) -> Weights:
    """1 / (P B_p L_i): the mean over prompts of the mean over their rollouts of the token mean.

    What articles on ScaleRL call prompt average. With equally many rollouts a prompt it is ``sample_mean``.
    """
    rollouts = _per_group((lengths > 0).astype(np.int64), group)
    return _reciprocal(np.count_nonzero(rollouts) * rollouts[group] * lengths)


LOSS_WEIGHTS: Mapping[str, Callable[[Counts, Counts], Weights]] = {
    "token_mean": token_mean,
    "sample_mean": sample_mean,
    "prompt_mean": prompt_mean,
    "prompt_sample_mean": prompt_sample_mean,
}
"""Rules that average. ``constant`` divides by a fixed length instead: ``token_weights``."""

CONSTANT = "constant"


def token_weights(rule: str, lengths: npt.ArrayLike, group: npt.ArrayLike, *, horizon: int | None = None) -> Weights:
    """Weight [N] of each token of every rollout of one update.

    ``lengths`` [N]: trainable tokens that take part, 0 for a rollout that is masked as a whole (it counts in no
    denominator and gets weight 0). ``group`` [N]: integer label of the rollout's prompt. ``horizon``: tokens a
    completion can have at most; rule 'constant' needs it and no other rule reads it: 1 / (B horizon), so that a long
    completion is not favoured over a short one (Dr. GRPO, arXiv 2503.20783).

    Raises ``RecordError`` on unequal shapes, an unknown rule, or 'constant' without a horizon.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    labels = np.asarray(group, dtype=np.int64)
    if counts.shape != labels.shape or counts.ndim != 1:
        raise RecordError(f"lengths {list(counts.shape)} and group {list(labels.shape)} must be [N] each")
    if rule == CONSTANT:
        weights = _constant(counts, horizon)
    elif rule in LOSS_WEIGHTS:
        weights = LOSS_WEIGHTS[rule](counts, np.unique(labels, return_inverse=True)[1].astype(np.int64))
    else:
        raise RecordError(f"loss_weight {rule!r} is none of {', '.join((*LOSS_WEIGHTS, CONSTANT))}")
    return np.where(counts > 0, weights, 0.0)


def _constant(lengths: Counts, horizon: int | None) -> Weights:
    if horizon is None or horizon < 1:
        raise RecordError(f"loss_weight 'constant' divides by a horizon of at least one token; found {horizon}")
    return _reciprocal(np.full(lengths.shape, np.count_nonzero(lengths) * horizon))


def _per_group(counts: Counts, group: Counts) -> Counts:
    """Sum of ``counts`` by group [P]."""
    return np.bincount(group, weights=counts).astype(np.int64) if len(group) else np.zeros(0, np.int64)


def _reciprocal(counts: Counts) -> Weights:
    return 1.0 / np.maximum(counts, 1)
