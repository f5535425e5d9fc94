"""The figures of one training step, gathered token by token and reduced once at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headrace.objectives.inputs import TokenLoss
from headrace.training.optimizer import UpdateOutcome
from headrace.training.ranks import Ranks

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

MEANS = {"entropy": "loss/entropy", "advantage_abs": "loss/advantage_abs_mean", "kl": "loss/kl"}
CLIPPED = ("clip_low", "clip_high", "dual_clip")
"""Statistics of tokens whose gradient the clip took: X = 0 in the covariance of entropy."""

QUANTILES = (0.01, 0.5, 0.99)

Array = npt.NDArray[np.float64]


class StepMeter:
    """Collects detached per-token tensors over the updates of one step. Means are over tokens; no token, no metric."""

    def __init__(self) -> None:
        self._tokens: dict[str, list[Tensor]] = defaultdict(list)
        self._loss: list[float] = []
        self._outcomes: list[UpdateOutcome] = []
        self._figures: dict[str, list[float]] = defaultdict(list)
        self.num_empty = 0
        self.num_waiting = 0
        self.num_nonfinite = 0

    def add_tokens(
        self,
        loss: TokenLoss,
        *,
        update: int,
        behaviour_ratio: Tensor,
        entropy: Tensor,
        advantage: Tensor,
        logprob: Tensor,
        correction: Tensor | None = None,
    ) -> None:
        """Figures of one micro-batch of update number ``update`` of the step, each [T]."""
        for name, value in loss.stats.items():
            self._tokens[name].append(value)
        self._tokens["behaviour_ratio"].append(behaviour_ratio)
        self._tokens["entropy"].append(entropy)
        self._tokens["advantage_abs"].append(advantage.abs())
        self._tokens["advantage"].append(advantage)
        self._tokens["logprob"].append(logprob)
        self._tokens["update"].append(torch.full_like(logprob, update))
        if correction is not None:
            self._tokens["correction"].append(correction)

    def add_masked(self, masked: Tensor) -> None:
        """1 where the off-policy mask took a token out, [T]."""
        self._tokens["off_policy_masked"].append(masked)

    def add_mismatch(self, difference: Tensor) -> None:
        """behaviour - trainer log-probability of tokens sampled from exactly the weights they are scored on."""
        self._tokens["mismatch"].append(difference)

    def add_lag(self, lag: npt.NDArray[np.int32]) -> None:
        """Lag of every trainable token, in steps."""
        self._tokens["lag"].append(torch.from_numpy(lag))

    def add_update(self, loss: float, outcome: UpdateOutcome, figures: Mapping[str, float] | None = None) -> None:
        """The loss and outcome of one update that reached the optimiser, and the objective's figures of it by name."""
        self._loss.append(loss)
        for name, value in (figures or {}).items():
            self._figures[name].append(value)
        self._outcomes.append(outcome)
        self.num_nonfinite += not outcome.applied

    def merged(self, ranks: Ranks) -> StepMeter:
        """On rank 0 the token figures of all ranks; losses and outcomes are the same everywhere. Lag is of the whole
        batch on every rank, so it is taken once."""
        if ranks.size == 1:
            return self
        own = {name: torch.cat(parts) for name, parts in self._tokens.items()}
        everybody = ranks.gather(own)
        for other in everybody[1:]:
            for name, values in other.items():
                if name != "lag":
                    self._tokens[name].append(values)
        return self

    def result(self) -> dict[str, float]:
        """All metrics of the step by name; every value is finite or the metric is absent."""
        seen = {name: _joined(parts) for name, parts in self._tokens.items()}
        seen = {name: values for name, values in seen.items() if values.size}
        metrics = {f"loss/{name}": float(np.mean(values)) for name, values in self._figures.items()}
        metrics |= _loss_metrics(seen) | _optim_metrics(self._loss, self._outcomes)
        metrics |= {
            "trainer/num_updates": float(sum(o.applied for o in self._outcomes)),
            "trainer/num_skipped_updates": float(self.num_empty + self.num_nonfinite),
            "trainer/num_empty_updates": float(self.num_empty),
            "trainer/num_waiting_updates": float(self.num_waiting),
            "trainer/num_nonfinite_updates": float(self.num_nonfinite),
        }
        return {name: value for name, value in metrics.items() if np.isfinite(value)}


def ess_frac(ratio: Array) -> float:
    """Effective sample size over sample size, (sum w)^2 / (n sum w^2): 1 on-policy, 1/n when one token has it all."""
    return float(ratio.sum() ** 2 / (ratio.size * np.square(ratio).sum()))


def _joined(parts: Sequence[Tensor]) -> Array:
    return torch.cat(list(parts)).double().cpu().numpy()


def _loss_metrics(seen: Mapping[str, Array]) -> dict[str, float]:
    metrics = {metric: float(seen[name].mean()) for name, metric in FRACTIONS.items() if name in seen}
    if "ratio" in seen:
        metrics["loss/ratio_mean"] = float(seen["ratio"].mean())
        for q, value in zip(QUANTILES, np.quantile(seen["ratio"], QUANTILES), strict=True):
            metrics[f"loss/ratio_p{round(q * 100):02d}"] = float(value)
        metrics["loss/ratio_max"] = float(seen["ratio"].max())
    if "behaviour_ratio" in seen:
        metrics["loss/ess_frac"] = ess_frac(seen["behaviour_ratio"])
    metrics |= {metric: float(seen[name].mean()) for name, metric in MEANS.items() if name in seen}
    if "correction" in seen:
        metrics["loss/correction_mean"] = float(seen["correction"].mean())
        metrics["loss/correction_zero_frac"] = float((seen["correction"] == 0).mean())
    if "mismatch" in seen:
        metrics["loss/mismatch_kl"] = float(seen["mismatch"].mean())
        metrics["loss/mismatch_abs_max"] = float(np.abs(seen["mismatch"]).max())
    if "lag" in seen:
        metrics["rollout/lag_mean"] = float(seen["lag"].mean())
        metrics["rollout/lag_max"] = float(seen["lag"].max())
    return metrics


def _optim_metrics(losses: Sequence[float], outcomes: Sequence[UpdateOutcome]) -> dict[str, float]:
    if not outcomes:
        return {}
    applied = [o for o in outcomes if o.applied]
    metrics = {"loss/value": float(np.mean(losses)), "optim/lr": outcomes[-1].lr}
    if applied:
        metrics["optim/grad_norm"] = float(np.mean([o.grad_norm for o in applied]))
        metrics["optim/update_norm"] = float(np.mean([o.update_norm for o in applied]))
    return metrics
