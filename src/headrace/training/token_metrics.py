"""From the tokens of a step, or of one of its updates, to figures. Names as in ``metrics/names.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headrace.metrics.signal import advantage_figures
from headrace.objectives.token_classes import entropy_covariance, token_class_shares

FRACTIONS = {
    "clip_low": "loss/clip_frac_low",
    "clip_high": "loss/clip_frac_high",
    "dual_clip": "loss/dual_clip_frac",
    "ratio_capped": "loss/ratio_capped_frac",
    "ratio_raised": "loss/ratio_raised_frac",
    "log_ratio_clamped": "loss/log_ratio_clamped_frac",
    "off_policy_masked": "loss/off_policy_masked_frac",
    "selected": "loss/selected_frac",
}
"""Statistic (0/1 a token) -> metric. A kernel that does not clip reports no clip fraction."""

MEANS = {"entropy": "loss/entropy", "kl": "loss/kl", "gate": "loss/gate_mean"}

CLIPPED = ("clip_low", "clip_high", "dual_clip")
"""Statistics of tokens whose gradient the clip took: X = 0 in the covariance of entropy."""

QUANTILES = (0.01, 0.5, 0.99)

Array = npt.NDArray[np.floating[Any]]  # [N], in the tokens' own dtype; sums are taken in float64


def update_metrics(seen: Mapping[str, Tensor]) -> dict[str, float]:
    """Figures that mean something within one update only: the covariance by which its entropy falls, its four classes
    of tokens, and the share of the loss that tokens with A > 0 carry.

    ``seen``: [N] each, on the CPU, all tokens of the update; "logprob" and "advantage" and what the kernel reported.
    A figure that needs what is not there is absent.
    """
    logprob, advantage = seen["logprob"], seen["advantage"]
    clipped = torch.zeros(len(logprob), dtype=torch.bool)
    for name in CLIPPED:
        if name in seen:
            clipped |= seen[name] != 0
    metrics = {}
    if (covariance := entropy_covariance(logprob, advantage, clipped)) is not None:
        metrics["loss/entropy_covariance"] = covariance
    shares = token_class_shares(logprob, advantage)
    if shares:
        metrics["loss/prob_split"] = shares.pop("p_split")
    metrics |= {f"loss/{name}_frac": share for name, share in shares.items()}
    if "surrogate" in seen:
        share = positive_share(seen["surrogate"].numpy(), advantage.numpy())
        metrics |= {} if share is None else {"loss/positive_share": share}
    return metrics


def step_metrics(seen: Mapping[str, Array]) -> dict[str, float]:
    """Figures over all tokens of a step at once, [N] each; a statistic without tokens must be left out."""
    metrics = {metric: _mean(seen[name]) for name, metric in {**FRACTIONS, **MEANS}.items() if name in seen}
    if "advantage" in seen:
        metrics |= advantage_figures(seen["advantage"])
        metrics["loss/advantage_abs_max"] = float(np.abs(seen["advantage"]).max())
    if "ratio" in seen:
        metrics |= ratio_figures(seen["ratio"])
    if "behaviour_ratio" in seen:
        metrics["loss/ess_frac"] = ess_frac(seen["behaviour_ratio"])
    if "correction" in seen:
        metrics["loss/correction_mean"] = _mean(seen["correction"])
        metrics["loss/correction_zero_frac"] = float((seen["correction"] == 0).mean())
    if "mismatch" in seen:
        metrics["loss/mismatch_kl"] = _mean(seen["mismatch"])
        metrics["loss/mismatch_abs_max"] = float(np.abs(seen["mismatch"]).max())
    if "lag" in seen:
        metrics["rollout/lag_mean"] = _mean(seen["lag"])
        metrics["rollout/lag_max"] = float(seen["lag"].max())
    return metrics


def ratio_figures(ratio: Array) -> dict[str, float]:
    """Mean, quantiles and maximum of the importance ratios [N]."""
    quantiles = np.quantile(ratio, QUANTILES)
    named = {f"loss/ratio_p{round(q * 100):02d}": float(v) for q, v in zip(QUANTILES, quantiles, strict=True)}
    return {"loss/ratio_mean": _mean(ratio)} | named | {"loss/ratio_max": float(ratio.max())}


def ess_frac(ratio: Array) -> float:
    """Effective sample size over sample size, (sum w)^2 / (n sum w^2): 1 on-policy, 1/n when one token has it all."""
    wide = ratio.astype(np.float64)
    return float(wide.sum() ** 2 / (wide.size * np.dot(wide, wide)))


def positive_share(size: Array, advantage: Array) -> float | None:
    """P / (P + N): P the summed ``size`` of what tokens with A > 0 contribute to the loss, N of those with A < 0.

    The balance that BAPO steers (arXiv 2510.18927 eq. 8, without its behaviour probability), for any clipped loss; None
    when no token contributes anything.
    """
    wide = size.astype(np.float64)
    positive, negative = float(wide[advantage > 0].sum()), float(wide[advantage < 0].sum())
    return positive / (positive + negative) if positive + negative > 0 else None


def averaged(updates: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of every figure over the updates that have it."""
    found: dict[str, list[float]] = {}
    for metrics in updates:
        for name, value in metrics.items():
            found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _mean(values: Array) -> float:
    return float(values.mean(dtype=np.float64))
