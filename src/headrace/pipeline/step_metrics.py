"""The figures of one step's groups. Names as in ``metrics/names.py``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.curation.zero_variance import count_kinds
from headrace.metrics.rollout_stats import rollout_stats
from headrace.records import NO_VERSION, Group


def group_metrics(groups: Sequence[Group], step: int) -> dict[str, float]:
    """Rewards, lengths, lag and zero-variance shares of the groups that step ``step`` consumed."""
    rollouts = [r for g in groups for r in g.rollouts]
    verdicts = [r.verdict for r in rollouts if r.verdict is not None and r.verdict.judged]
    stats = rollout_stats(rollouts)
    lengths = stats.num_trainable if rollouts else np.zeros(1)
    written = stats.oldest != NO_VERSION
    lags = step - stats.oldest[written] if written.any() else np.zeros(1)
    kinds = count_kinds(groups)
    metrics = {
        "rollout/length_mean": float(lengths.mean()),
        "rollout/length_p50": float(np.percentile(lengths, 50)),
        "rollout/length_p99": float(np.percentile(lengths, 99)),
        "rollout/length_max": float(lengths.max()),
        "rollout/truncated_frac": float(np.mean([r.finish_reason == "length" for r in rollouts] or [False])),
        "rollout/interrupted_frac": float(np.mean([r.finish_reason == "interrupted" for r in rollouts] or [False])),
        "sampling/temperature": float(np.mean([r.temperature for r in rollouts] or [0.0])),
        "rollout/lag_mean": float(lags.mean()),
        "rollout/lag_max": float(lags.max()),
        "rollout/mixed_version_frac": float(stats.mixed.mean()) if rollouts else 0.0,
        "rollout/zero_variance_frac": kinds.zero_variance_frac,
        "rollout/all_right_frac": kinds.all_right / max(kinds.total, 1),
        "rollout/all_wrong_frac": kinds.all_wrong / max(kinds.total, 1),
    }
    if verdicts:
        rewards = np.asarray([v.reward for v in verdicts], dtype=np.float64)
        metrics |= {
            "reward/mean": float(rewards.mean()),
            "reward/std": float(rewards.std()),
            "reward/pass_rate": float(np.mean([v.passed for v in verdicts])),
        }
    return metrics
