"""The figures of one step's groups. Names as in ``metrics/names.py``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.curation.zero_variance import count_kinds
from headrace.records import NO_VERSION, Group


def group_metrics(groups: Sequence[Group], step: int) -> dict[str, float]:
    """Rewards, lengths, lag and zero-variance shares of the groups that step ``step`` consumed."""
    rollouts = [r for g in groups for r in g.rollouts]
    verdicts = [r.verdict for r in rollouts if r.verdict is not None and r.verdict.judged]
    lengths = np.asarray([r.num_trainable for r in rollouts] or [0])
    lags = np.asarray([step - r.oldest_version for r in rollouts if r.oldest_version != NO_VERSION] or [0])
    kinds = count_kinds(groups)
    metrics = {
        "rollout/length_mean": float(lengths.mean()),
        "rollout/length_p50": float(np.percentile(lengths, 50)),
        "rollout/length_p99": float(np.percentile(lengths, 99)),
        "rollout/length_max": float(lengths.max()),
        "rollout/truncated_frac": float(np.mean([r.finish_reason == "length" for r in rollouts] or [False])),
        "rollout/lag_mean": float(lags.mean()),
        "rollout/lag_max": float(lags.max()),
        "rollout/mixed_version_frac": float(
            np.mean([_mixed(r.policy_version[r.trainable]) for r in rollouts] or [False])
        ),
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


def _mixed(versions: np.ndarray) -> bool:
    return len(versions) > 0 and bool((versions != versions[0]).any())
