"""The critic of PPO: a value model with an optimiser of its own, trained towards returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headrace.config.sections import OptimizerSection
from headrace.models.logprobs import row_tensors
from headrace.models.value_model import ValueModel
from headrace.objectives.value_loss import value_loss
from headrace.records import BoolArray, MicroBatch
from headrace.training.checkpointing import load_value, save_value
from headrace.training.optimizer import PolicyOptimizer, UpdateOutcome
from headrace.training.ranks import Ranks

Array = npt.NDArray[np.float64]


class Critic:
    """Values for advantages, and the updates that make them better.

    ``optimizer`` holds the learning rate and gradient clip of the critic's own; ``warmup`` counts its own updates.
    ``clip``: how far a value may move from the one before the step (None: any way). ``every``: it is updated at every
    N-th step. ``pretrain_steps``: the first steps, in which it is always updated and the policy waits (value
    pre-training, VC-PPO, arXiv 2503.01491). Arrays over tokens hold one entry for each trainable token of a
    micro-batch, in row-major order. Every rank calls every method with its own rows.
    """

    def __init__(
        self,
        model: ValueModel,
        optimizer: OptimizerSection,
        *,
        warmup: int = 0,
        clip: float | None = None,
        every: int = 1,
        pretrain_steps: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        self.model = model
        self._optimizer = PolicyOptimizer(model, optimizer, warmup=warmup)
        self._clip = clip
        self._every = every
        self._pretrain_steps = pretrain_steps
        self._ranks = ranks or Ranks()
        self._figures: dict[str, list[float]] = defaultdict(list)
        self._num_skipped = 0

    def due(self, step: int) -> bool:
        """Whether the critic is updated in ``step`` (from 0): in all of pre-training, then in every N-th step."""
        return self.policy_waits(step) or (step - self._pretrain_steps) % self._every == 0

    def policy_waits(self, step: int) -> bool:
        """Whether ``step`` is value pre-training: the policy makes no update."""
        return step < self._pretrain_steps

    def values(self, micro: MicroBatch) -> Array:
        """Value [T] of the state before each trainable token, at the current weights."""
        return self.values_and_ends(micro, None)[0]

    @torch.no_grad()
    def values_and_ends(self, micro: MicroBatch, truncated: BoolArray | None) -> tuple[Array, dict[int, float]]:
        """``values`` [T], and by segment the value of the state after the last token of each truncated rollout.

        ``truncated`` [B] by segment; None: of no rollout.
        """
        if not micro.trainable.any():
            return np.zeros(0), {}
        rows = row_tensors(micro, self.model.device)
        last = _last_tokens(micro, truncated)
        ends = torch.tensor(list(last.values()), dtype=torch.int64, device=self.model.device)
        before, after = self.model.values_and_ends(rows, ends)
        return _numpy(before), dict(zip(last, _numpy(after).tolist(), strict=True))

    def update(
        self,
        micros: Sequence[MicroBatch],
        *,
        returns: Sequence[Array],
        old_values: Sequence[Array],
        weights: Sequence[Array],
    ) -> UpdateOutcome | None:
        """One optimiser step on the sum of value loss x weight over all tokens of all ranks.

        The three sequences go with ``micros``, arrays [T] each; weights sum over the update to its normalisation.
        An update in which no token anywhere has weight makes no optimiser call (None). A loss or gradient that is not
        finite changes nothing either (None, or ``applied`` False); both are counted.
        """
        total, finite, seen = 0.0, True, _Seen()
        for micro, target, old, weight in zip(micros, returns, old_values, weights, strict=True):
            if not weight.any():
                continue
            loss, fine = self._backward(micro, target, old, weight, seen)
            total, finite = total + loss, finite and fine
            if not finite:
                break
        total, num_failed, count = self._ranks.sum_values(total, float(not finite), float(seen.count))
        if num_failed or not count:
            self._optimizer.zero_grad()
            self._num_skipped += 1
            return None
        self._optimizer.sum_gradients(self._ranks)
        outcome = self._optimizer.apply()
        self._num_skipped += not outcome.applied
        self._note(seen, count, total, outcome)
        return outcome

    def explained_variance(self, micros: Sequence[MicroBatch], returns: Sequence[Array]) -> float:
        """1 - Var(R - V) / Var(R) at the current weights, over the trainable tokens of all ranks; NaN when all returns
        are equal. After an update it flatters: these very returns were fitted."""
        values = [self.values(micro) for micro in micros]
        return explained_variance(_joined(values), _joined(returns), self._ranks)

    def take_metrics(self) -> dict[str, float]:
        """Means over the updates since the last call, finite ones only; the same on every rank.

        The explained variance is of the old values: what the critic knew of these returns before it was fitted to them.
        """
        means = {name: float(np.mean(seen)) for name, seen in self._figures.items()}
        metrics = means | {"value/num_skipped_updates": float(self._num_skipped)}
        self._figures.clear()
        self._num_skipped = 0
        return metrics

    def save(self, folder: str) -> None:
        """Write weights and optimiser into ``folder``, beside the policy's."""
        save_value(folder, model=self.model, optimizer=self._optimizer.state_dict())

    def load(self, folder: str) -> None:
        """Take up what ``save`` wrote. Raises ``DataError`` when the folder lacks it."""
        self._optimizer.load_state_dict(load_value(folder, model=self.model))

    def _backward(
        self, micro: MicroBatch, returns: Array, old_value: Array, weight: Array, seen: _Seen
    ) -> tuple[float, bool]:
        """Forward and backward of one micro-batch: its share of the loss, and whether it was finite."""
        value = self.model.values(row_tensors(micro, self.model.device))
        target, old, weights = (torch.from_numpy(x).to(value.device) for x in (returns, old_value, weight))
        token_loss = value_loss(value, old.to(value.dtype), target.to(value.dtype), clip=self._clip)
        loss = (token_loss.value * weights).sum()
        share = float(loss.detach())
        if not np.isfinite(share):
            return share, False
        loss.backward()
        counted = weight != 0
        seen.add(value=_numpy(value)[counted], old=old_value[counted], returns=returns[counted])
        if "value_clip" in token_loss.stats:
            seen.add(clipped=_numpy(token_loss.stats["value_clip"])[counted])
        return share, True

    def _note(self, seen: _Seen, count: float, loss: float, outcome: UpdateOutcome) -> None:
        value_sum, clip_sum = self._ranks.sum_values(seen.joined("value").sum(), seen.joined("clipped").sum())
        figures = {
            "value/loss": loss,
            "value/mean": value_sum / count,
            "value/explained_variance": explained_variance(seen.joined("old"), seen.joined("returns"), self._ranks),
            "value/grad_norm": outcome.grad_norm,
            "value/lr": outcome.lr,
        }
        if self._clip is not None:
            figures["value/clip_frac"] = clip_sum / count
        for name, figure in figures.items():
            if np.isfinite(figure):
                self._figures[name].append(figure)


class _Seen:
    """Per-token figures of one update on this rank."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = defaultdict(list)

    def add(self, **parts: Array) -> None:
        for name, part in parts.items():
            self._parts[name].append(part)

    def joined(self, name: str) -> Array:
        return _joined(self._parts[name])

    @property
    def count(self) -> int:
        return sum(len(part) for part in self._parts["value"])


def explained_variance(value: Array, returns: Array, ranks: Ranks) -> float:
    """1 - Var(R - V) / Var(R) over the tokens [T] of all ranks; NaN when there are none or all returns are equal."""
    error = returns - value
    count, returns_sum, error_sum = ranks.sum_values(float(len(value)), float(returns.sum()), float(error.sum()))
    if not count:
        return float("nan")
    mean = returns_sum / count
    spread, left = ranks.sum_values(
        float(np.square(returns - mean).sum()), float(np.square(error - error_sum / count).sum())
    )
    # Equal returns differ from their mean by rounding.
    return 1 - left / spread if spread > 1e-24 * count * mean**2 else float("nan")


def _last_tokens(micro: MicroBatch, truncated: BoolArray | None) -> dict[int, int]:
    """Flat position of the last trainable token of every truncated rollout, by segment."""
    if truncated is None:
        return {}
    flat = np.flatnonzero(micro.trainable)
    last = dict(zip(micro.segment.reshape(-1)[flat].tolist(), flat.tolist(), strict=True))
    return {segment: place for segment, place in last.items() if truncated[segment]}


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _numpy(values: Tensor) -> Array:
    found: Array = values.detach().double().cpu().numpy()
    return found
