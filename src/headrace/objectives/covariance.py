"""Clip-Cov and KL-Cov: the few tokens whose covariance of log-probability and advantage takes entropy away."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headrace.objectives.inputs import LossInputs, TokenLoss, as_stat, corrected, wanted
from headrace.objectives.ppo_clip import ppo_clip
from headrace.objectives.ratio import importance_ratio
from headrace.objectives.update_figures import UpdateFigures, UpdateTokens


def token_covariance(x: UpdateTokens) -> Tensor:
    """(log pi_t - mean log pi)(A_t - mean A) [N], means over all tokens: arXiv 2505.22617 eq. 10. Its mean is the
    covariance by which the entropy of the policy falls."""
    return (x.logprob - x.logprob.mean()) * (x.advantage - x.advantage.mean())


def clip_cov_selection(
    x: UpdateTokens, *, frac: float = 2e-4, cov_low: float = 1.0, cov_high: float = 5.0
) -> UpdateFigures:
    """A random ``frac`` of the tokens, at least one, out of those whose covariance lies in [cov_low, cov_high]: those
    of least ``noise``. All of them when they are fewer.

    Selected [N]; stats: ``covariance`` (mean), ``covariance_selected`` (mean of the selected), ``selected_frac``.
    """
    covariance = token_covariance(x)
    eligible = (covariance >= cov_low) & (covariance <= cov_high)
    ranked = torch.where(eligible, x.noise, math.inf).argsort(stable=True)
    return _figures(covariance, ranked[: min(_count(frac, len(ranked)), int(eligible.sum()))])


def kl_cov_selection(x: UpdateTokens, *, frac: float = 2e-3) -> UpdateFigures:
    """The ``frac`` of the tokens, at least one, with the largest covariance (arXiv 2505.22617).

    Rollouts of a group often begin with the same token, which then has one covariance but for rounding: among equals
    the least ``noise`` decides, so that neither rounding nor the order of the tokens does. Equal is what differs by
    less than 2^-16 of the largest.

    Selected [N]; stats as in ``clip_cov_selection``.
    """
    covariance = token_covariance(x)
    drawn = x.noise.argsort(stable=True)
    ranked = drawn[_coarse(covariance)[drawn].argsort(descending=True, stable=True)]
    return _figures(covariance, ranked[: _count(frac, len(ranked))])


def clip_cov(x: LossInputs, *, clip_low: float, clip_high: float) -> TokenLoss:
    """``ppo_clip``, and the selected tokens keep their value but not their gradient: arXiv 2505.22617.

    Stats of ``ppo_clip`` and ``selected``.
    """
    picked = wanted(x.selected, "selected", "clip_cov")
    loss = ppo_clip(x, clip_low=clip_low, clip_high=clip_high)
    value = torch.where(picked, loss.value.detach(), loss.value)
    return TokenLoss(value=value, stats={**loss.stats, "selected": as_stat(picked, value)})


def kl_cov(x: LossInputs, *, coef: float = 1.0) -> TokenLoss:
    """-A r, unclipped, plus coef |log r| on the selected tokens [T]: arXiv 2505.22617.

    Stats: ``ratio``, ``log_ratio_clamped``, ``selected``.
    """
    picked = wanted(x.selected, "selected", "kl_cov")
    ratio = importance_ratio(x)
    value = -x.advantage * ratio.value + coef * ratio.log.abs() * picked
    return TokenLoss(value=corrected(value, x), stats=ratio.stats | {"selected": as_stat(picked, value)})


def _coarse(covariance: Tensor) -> Tensor:
    """In whole steps of 2^-16 of the largest size."""
    if not covariance.any():
        return covariance
    return (covariance / covariance.abs().max() * 2**16).round()


def _count(frac: float, tokens: int) -> int:
    return max(1, math.floor(frac * tokens + 1e-9))


def _figures(covariance: Tensor, chosen: Tensor) -> UpdateFigures:
    selected = torch.zeros_like(covariance, dtype=torch.bool)
    selected[chosen] = True
    stats = {}
    if len(covariance):
        stats = {"covariance": float(covariance.mean()), "selected_frac": len(chosen) / len(covariance)}
    if len(chosen):
        stats["covariance_selected"] = float(covariance[chosen].mean())
    return UpdateFigures(selected=selected, stats=stats)
