"""The figures of one step's groups. Names as in ``metrics/names.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from headrace.config.algorithm import AlgorithmSection
from headrace.curation.overlong import cut_off
from headrace.curation.zero_variance import TOLERANCE, count_kinds
from headrace.metrics.rollout_stats import rollout_stats
from headrace.metrics.signal import advantage_figures, effective_fracs, pass_rate_histogram
from headrace.packing.eligible import masked_reason
from headrace.pipeline.parts import Trained
from headrace.records import NO_VERSION, FloatArray, Group, Rollout


def step_metrics(trained: Trained, algorithm: AlgorithmSection) -> dict[str, float]:
    """What a step's groups, their advantages and the prompt set say."""
    taught = _taught(trained.groups, mask_truncated=algorithm.truncated == "mask")
    metrics = group_metrics(trained.groups, trained.batch.step, tolerance=algorithm.zero_variance_tolerance)
    metrics |= effective_fracs(taught) | pass_rate_histogram(trained.groups) | advantage_figures(_tokens(taught))
    metrics |= trained.curation
    if algorithm.overlong is not None:
        metrics |= _shaped(trained.batch.rewards)
    if algorithm.interruption is not None:
        ends = [r.finish_reason for g in trained.groups for r in g.rollouts]
        metrics["rollout/interrupted_frac"] = ends.count("interrupted") / max(len(ends), 1)
    if trained.uses:
        metrics["rollout/reuse_frac"] = float(np.mean([uses > 0 for uses in trained.uses]))
    return metrics


def group_metrics(groups: Sequence[Group], step: int, *, tolerance: float = TOLERANCE) -> dict[str, float]:
    """Rewards, lengths, lag and zero-variance shares of the groups that step ``step`` consumed.

    All of them are of the verdicts: give the groups before shaping.
    """
    rollouts = [r for g in groups for r in g.rollouts]
    verdicts = [r.verdict for r in rollouts if r.verdict is not None and r.verdict.judged]
    stats = rollout_stats(rollouts)
    lengths = stats.num_trainable if rollouts else np.zeros(1)
    written = stats.oldest != NO_VERSION
    lags = step - stats.oldest[written] if written.any() else np.zeros(1)
    kinds = count_kinds(groups, tolerance)
    metrics = {
        "rollout/length_mean": float(lengths.mean()),
        "rollout/length_p50": float(np.percentile(lengths, 50)),
        "rollout/length_p99": float(np.percentile(lengths, 99)),
        "rollout/length_max": float(lengths.max()),
        "rollout/truncated_frac": float(np.mean([r.finish_reason == "length" for r in rollouts] or [False])),
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


def with_advantage(groups: Sequence[Group], advantage: npt.ArrayLike) -> tuple[Group, ...]:
    """The groups with advantages the trainer made: [B], each on all of its rollout's tokens; none for NaN."""
    values = iter(np.asarray(advantage, dtype=np.float32))

    def one(rollout: Rollout) -> Rollout:
        value = next(values)
        filled = None if np.isnan(value) else np.where(rollout.trainable, value, np.float32(0))
        return replace(rollout, advantage=filled)

    return tuple(replace(group, rollouts=tuple(one(r) for r in group.rollouts)) for group in groups)


def _shaped(rewards: FloatArray) -> dict[str, float]:
    """Of the rewards [B] that trained; NaN is not judged."""
    judged = rewards[~np.isnan(rewards)]
    return {"reward/shaped_mean": float(judged.mean(dtype=np.float64))} if len(judged) else {}


def _taught(groups: Sequence[Group], *, mask_truncated: bool) -> list[Group]:
    """The groups with no advantage where the loss leaves a rollout out."""

    def one(rollout: Rollout) -> Rollout:
        masked = (mask_truncated and cut_off(rollout)) or masked_reason(rollout)
        return replace(rollout, advantage=None) if masked else rollout

    return [replace(group, rollouts=tuple(one(r) for r in group.rollouts)) for group in groups]


def _tokens(groups: Sequence[Group]) -> npt.NDArray[np.float32]:
    """Advantages [N] of the tokens that train."""
    rollouts = [r for g in groups if g.signal for r in g.rollouts]
    found = [r.advantage[r.trainable] for r in rollouts if r.advantage is not None]
    return np.concatenate(found) if found else np.zeros(0, np.float32)
