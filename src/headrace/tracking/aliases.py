"""Names other libraries give to our metrics, so that dashboards and log readers made for them keep working.

``None`` where a library has no such figure. Where a figure only resembles ours (another average or unit) it is left
out: a familiar name must not carry an unfamiliar number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Alias(NamedTuple):
    """What TRL (GRPOTrainer) and verl call a metric."""

    trl: str | None
    verl: str | None


CLIP_SIDES = ("loss/clip_frac_low", "loss/clip_frac_high")

ALIASES: Mapping[str, Alias] = {
    "reward/mean": Alias("reward", "critic/score/mean"),
    "reward/std": Alias("reward_std", None),
    "rollout/zero_variance_frac": Alias("frac_reward_zero_std", None),
    "rollout/length_mean": Alias("completions/mean_length", "response_length/mean"),
    "rollout/length_max": Alias("completions/max_length", "response_length/max"),
    "rollout/truncated_frac": Alias("completions/clipped_ratio", "response_length/clip_ratio"),
    "loss/value": Alias("loss", "actor/pg_loss"),
    "loss/entropy": Alias("entropy", "actor/entropy"),
    "loss/clip_frac": Alias("clip_ratio/region_mean", "actor/pg_clipfrac"),
    "loss/clip_frac_low": Alias("clip_ratio/low_mean", None),
    "loss/clip_frac_high": Alias("clip_ratio/high_mean", None),
    "loss/dual_clip_frac": Alias(None, "actor/pg_clipfrac_lower"),
    "optim/lr": Alias("learning_rate", "actor/lr"),
    "optim/grad_norm": Alias("grad_norm", "actor/grad_norm"),
    "loss/kl": Alias("kl", "actor/kl_loss"),
    "value/loss": Alias(None, "critic/vf_loss"),
    "value/explained_variance": Alias(None, "critic/vf_explained_var"),
    "value/clip_frac": Alias(None, "critic/vf_clipfrac"),
    "value/grad_norm": Alias(None, "critic/grad_norm"),
    "value/lr": Alias(None, "critic/lr"),
    "loss/mismatch_kl": Alias(None, "rollout_corr/kl"),
    "loss/mismatch_abs_max": Alias("sampling/sampling_logp_difference/max", None),
    "rollout/lag_mean": Alias(None, "training/off_policy/trajectory_staleness_worst/mean"),
    "rollout/lag_max": Alias(None, "training/off_policy/trajectory_staleness_worst/max"),
    "trainer/idle_frac": Alias(None, "fully_async/trainer/idle_ratio"),
    "generator/idle_frac": Alias(None, "fully_async/rollouter/idle_ratio"),
}


def add_aliases(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics under our names and, in addition, under TRL's and verl's. A name already there is kept.

    Both know one clip fraction for the two sides together; it is added as ``loss/clip_frac``.
    """
    named = dict(metrics)
    sides = [metrics[name] for name in CLIP_SIDES if name in metrics]
    if sides:
        named.setdefault("loss/clip_frac", sum(sides))
    for name, alias in ALIASES.items():
        if name in named:
            for other in filter(None, alias):
                named.setdefault(other, named[name])
    return named
