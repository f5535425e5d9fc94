"""The figures of one training step, gathered token by token and reduced once at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headrace.objectives.inputs import TokenLoss
from headrace.training.optimizer import UpdateOutcome
from headrace.training.ranks import Ranks
from headrace.training.token_metrics import averaged, step_metrics, update_metrics

Parts = defaultdict[str, list[Tensor]]


class StepMeter:
    """Collects detached per-token tensors over the updates of one step. Means are over tokens; no token, no metric.

    Figures that compare the tokens of one update with each other are taken update by update, then averaged.
    """

    def __init__(self) -> None:
        self._updates: defaultdict[int, Parts] = defaultdict(_parts)
        self._step: Parts = _parts()
        self._loss: list[float] = []
        self._outcomes: list[UpdateOutcome] = []
        self._figures: list[dict[str, float]] = []
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
        given = {"behaviour_ratio": behaviour_ratio, "entropy": entropy, "advantage": advantage, "logprob": logprob}
        if correction is not None:
            given["correction"] = correction
        for name, value in {**loss.stats, **given}.items():
            self._updates[update][name].append(value)

    def add_masked(self, masked: Tensor) -> None:
        """1 where the off-policy mask took a token out, [T]."""
        self._step["off_policy_masked"].append(masked)

    def add_mismatch(self, difference: Tensor) -> None:
        """behaviour - trainer log-probability of tokens sampled from exactly the weights they are scored on."""
        self._step["mismatch"].append(difference)

    def add_lag(self, lag: npt.NDArray[np.int32]) -> None:
        """Lag of every trainable token, in steps."""
        self._step["lag"].append(torch.from_numpy(lag))

    def add_update(self, loss: float, outcome: UpdateOutcome, figures: Mapping[str, float] | None = None) -> None:
        """The loss and outcome of one update that reached the optimiser, and the objective's figures of it by name."""
        self._loss.append(loss)
        self._figures.append({f"loss/{name}": value for name, value in (figures or {}).items()})
        self._outcomes.append(outcome)
        self.num_nonfinite += not outcome.applied

    def merged(self, ranks: Ranks) -> StepMeter:
        """On rank 0 the token figures of all ranks; losses and outcomes are the same everywhere. Lag is of the whole
        batch on every rank, so it is taken once."""
        if ranks.size == 1:
            return self
        everybody = ranks.gather((_joined(self._step), {u: _joined(parts) for u, parts in self._updates.items()}))
        for step, updates in everybody[1:]:
            for name in step.keys() - {"lag"}:
                self._step[name].append(step[name])
            for update, tokens in updates.items():
                for name, value in tokens.items():
                    self._updates[update][name].append(value)
        return self

    def result(self) -> dict[str, float]:
        """All metrics of the step by name; every value is finite or the metric is absent. What the objective says of an
        update stands before what the tokens say."""
        updates = [_joined(parts) for _, parts in sorted(self._updates.items())]
        tokens = {**_all_updates(updates), **_joined(self._step)}
        metrics = step_metrics({name: value.numpy() for name, value in tokens.items() if len(value)})
        metrics |= averaged(update_metrics(seen) for seen in updates) | averaged(self._figures)
        metrics |= _optim_metrics(self._loss, self._outcomes)
        metrics |= {
            "trainer/num_updates": float(sum(o.applied for o in self._outcomes)),
            "trainer/num_skipped_updates": float(self.num_empty + self.num_nonfinite),
            "trainer/num_empty_updates": float(self.num_empty),
            "trainer/num_waiting_updates": float(self.num_waiting),
            "trainer/num_nonfinite_updates": float(self.num_nonfinite),
        }
        return {name: value for name, value in metrics.items() if np.isfinite(value)}


def _parts() -> Parts:
    return defaultdict(list)


def _joined(parts: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
    """On the CPU, [N] each."""
    return {name: torch.cat(list(values)).cpu() for name, values in parts.items()}


def _all_updates(updates: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    parts = _parts()
    for seen in updates:
        for name, value in seen.items():
            parts[name].append(value)
    return _joined(parts)


def _optim_metrics(losses: Sequence[float], outcomes: Sequence[UpdateOutcome]) -> dict[str, float]:
    if not outcomes:
        return {}
    applied = [o for o in outcomes if o.applied]
    metrics = {"loss/value": float(np.mean(losses)), "optim/lr": outcomes[-1].lr}
    if applied:
        metrics["optim/grad_norm"] = float(np.mean([o.grad_norm for o in applied]))
        metrics["optim/update_norm"] = float(np.mean([o.update_norm for o in applied]))
    return metrics
