"""Critic-free advantages: a baseline at one level, a scale at another. numpy, float64, one value per rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from headrace.errors import RecordError
from headrace.records import Group

MeanLevel = Literal["none", "group", "leave_one_out", "batch"]
ScaleLevel = Literal["none", "group", "batch", "raw_batch"]
Values = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

ZERO_VARIANCE_TOLERANCE = 1e-6
STD_EPS = 1e-6
BATCH_DDOF: Mapping[str, int] = {"batch": 0, "raw_batch": 1}
"""Degrees of freedom taken off the two batch standard deviations: ScaleRL's definition here, torch.std in TRL."""

# Levels at which a group of equal rewards has nothing to say: its centred rewards are 0, or its own spread divides.
_GROUP_MEANS = ("group", "leave_one_out")


def group_relative(
    rewards: npt.ArrayLike,
    group: npt.ArrayLike,
    *,
    mean: MeanLevel = "group",
    scale: ScaleLevel = "group",
    group_ddof: int = 1,
    batch_ddof: int | None = None,
    eps: float = STD_EPS,
    tolerance: float = ZERO_VARIANCE_TOLERANCE,
) -> Values:
    """Advantage [N] of every rollout: (r - baseline) / (std + eps).

    ``rewards`` [N], NaN = not judged (advantage 0, and outside every statistic); ``group`` [N] any integer labels, in
    any order. Rows of the usual algorithms: group x group GRPO (arXiv 2402.03300 section 4.1.2, ``group_ddof`` 1 as
    torch.std), group x none Dr. GRPO (arXiv 2503.20783), leave_one_out x none RLOO (arXiv 2402.14740), group x batch
    ScaleRL (arXiv 2510.13786). Scale 'batch' is the spread of the *centred* rewards of the batch, 'raw_batch' that of
    the rewards themselves (TRL's scale_rewards "batch"): two numbers. ``batch_ddof`` None takes ``BATCH_DDOF``.
    ``eps`` is added outside the root.

    A group whose judged rewards differ by ``tolerance`` or less, or with fewer than two judged members, gives exactly
    0 when its own mean or std is used; a batch in which the values to be scaled by differ by ``tolerance`` or less
    gives exactly 0 throughout. Raises ``RecordError`` on unequal lengths or infinite rewards.
    """
    r, member = _checked(rewards, group)
    judged = ~np.isnan(r)
    centred = np.where(judged, r - _MEANS[mean](r, member, judged), 0.0)
    silent = ~judged
    if mean in _GROUP_MEANS or scale == "group":
        silent |= _flat(r, member, judged, tolerance)
    if scale == "none":
        return np.where(silent, 0.0, centred)
    if scale == "group":
        return np.where(silent, 0.0, centred / (_group_std(r, member, judged, group_ddof) + eps))
    seen = (centred if scale == "batch" else r)[judged]
    if not seen.size or np.ptp(seen) <= tolerance:
        return np.zeros_like(r)
    ddof = BATCH_DDOF[scale] if batch_ddof is None else batch_ddof
    return np.where(silent, 0.0, centred / (_std(seen, ddof) + eps))


def with_advantages(
    groups: Sequence[Group],
    *,
    mean: MeanLevel,
    scale: ScaleLevel,
    group_ddof: int = 1,
    batch_ddof: int | None = None,
    eps: float = STD_EPS,
    tolerance: float = ZERO_VARIANCE_TOLERANCE,
) -> list[Group]:
    """The groups of one step with every rollout's per-token advantage filled in (float32 [L], 0 off trainable tokens).

    Call it after the sweep and the cut: batch statistics are those of the batch that trains. Groups with ``signal``
    False are no part of it and get 0.
    """
    live = [g for g in groups if g.signal]
    rewards = [np.nan if r is None else r for g in live for r in g.rewards]
    label = np.repeat(np.arange(len(live)), [len(g.rollouts) for g in live])
    values = iter(
        group_relative(
            rewards,
            label,
            mean=mean,
            scale=scale,
            group_ddof=group_ddof,
            batch_ddof=batch_ddof,
            eps=eps,
            tolerance=tolerance,
        )
    )
    return [_filled(g, [next(values) for _ in g.rollouts] if g.signal else [0.0] * len(g.rollouts)) for g in groups]


def _filled(group: Group, values: Sequence[float]) -> Group:
    rollouts = tuple(
        replace(rollout, advantage=np.where(rollout.trainable, np.float32(value), np.float32(0)))
        for rollout, value in zip(group.rollouts, values, strict=True)
    )
    return replace(group, rollouts=rollouts)


def _checked(rewards: npt.ArrayLike, group: npt.ArrayLike) -> tuple[Values, Index]:
    r = np.asarray(rewards, dtype=np.float64)
    labels = np.asarray(group)
    if r.ndim != 1 or r.shape != labels.shape:
        raise RecordError(f"rewards {list(r.shape)} and group {list(labels.shape)} must be [N] each")
    if np.isinf(r).any():
        raise RecordError("a reward is infinite; an answer that cannot be judged is NaN")
    return r, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _per_group(values: Values, member: Index, judged: npt.NDArray[np.bool_]) -> tuple[Values, Values]:
    """Sum and count of judged values by group, spread back over the rollouts: two [N]."""
    total: Values = np.bincount(member, weights=np.where(judged, values, 0.0)).astype(np.float64)
    count: Values = np.bincount(member, weights=judged).astype(np.float64)
    return total[member], count[member]


def _group_mean(r: Values, member: Index, judged: npt.NDArray[np.bool_]) -> Values:
    total, count = _per_group(r, member, judged)
    return total / np.maximum(count, 1)


def _others_mean(r: Values, member: Index, judged: npt.NDArray[np.bool_]) -> Values:
    total, count = _per_group(r, member, judged)
    return (total - np.where(judged, r, 0.0)) / np.maximum(count - 1, 1)


def _batch_mean(r: Values, member: Index, judged: npt.NDArray[np.bool_]) -> Values:
    return np.full_like(r, r[judged].mean() if judged.any() else 0.0)


def _no_mean(r: Values, member: Index, judged: npt.NDArray[np.bool_]) -> Values:
    return np.zeros_like(r)


def _group_std(r: Values, member: Index, judged: npt.NDArray[np.bool_], ddof: int) -> Values:
    # Two passes over deviations: the one-pass form can turn out below zero for equal rewards.
    deviation = np.where(judged, r - _group_mean(r, member, judged), 0.0)
    total, count = _per_group(deviation**2, member, judged)
    return np.sqrt(total / np.maximum(count - ddof, 1))


def _std(values: Values, ddof: int) -> float:
    return float(np.sqrt(np.square(values - values.mean()).sum() / max(len(values) - ddof, 1)))


def _flat(r: Values, member: Index, judged: npt.NDArray[np.bool_], tolerance: float) -> npt.NDArray[np.bool_]:
    """True [N] for members of a group without spread or with fewer than two judged."""
    groups = int(member.max()) + 1 if member.size else 0
    high, low = np.full(groups, -np.inf), np.full(groups, np.inf)
    np.maximum.at(high, member[judged], r[judged])
    np.minimum.at(low, member[judged], r[judged])
    count = np.bincount(member[judged], minlength=groups)
    with np.errstate(invalid="ignore"):
        flat = (count < 2) | (high - low <= tolerance)
    return flat[member]


_MEANS: Mapping[str, Callable[..., Values]] = {
    "none": _no_mean,
    "group": _group_mean,
    "leave_one_out": _others_mean,
    "batch": _batch_mean,
}
