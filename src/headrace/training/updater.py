"""One optimiser step of the policy: its loss is the sum over all tokens of value x weight, however they are split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headrace.config.sections import Recipe
from headrace.models.lm_head import HeadScores
from headrace.objectives.corrections import off_policy_sequence_mask
from headrace.objectives.inputs import LossInputs, TokenLoss
from headrace.objectives.objective import AdaptiveState, Objective
from headrace.objectives.ratio import LOG_RATIO_BOUND
from headrace.objectives.update_figures import UpdateFigures
from headrace.records import MicroBatch, PackedBatch
from headrace.training.metrics import StepMeter
from headrace.training.optimizer import PolicyOptimizer
from headrace.training.prepare import Prepared
from headrace.training.ranks import Ranks
from headrace.training.scoring import Scorer
from headrace.training.update_tokens import joined, split_selected, tokens_of


class Updater:
    """Makes the updates of a recipe's objective. ``state`` is what the objective remembers between them."""

    def __init__(
        self, policy: Scorer, objective: Objective, optimizer: PolicyOptimizer, recipe: Recipe, ranks: Ranks
    ) -> None:
        self.state = AdaptiveState()
        self._policy, self._objective, self._optimizer, self._ranks = policy, objective, optimizer, ranks
        self._seed = recipe.run.seed
        self._mask = recipe.algorithm.off_policy_mask

    def extra_passes(self, batch: PackedBatch, anchor: str) -> int:
        """Forward passes over the batch that figures of whole updates cost: none for an update of one micro-batch,
        whose figures come from the pass that trains it, nor for the first one when the step was scored before."""
        if not self._objective.needs_figures:
            return 0
        return sum(len(u) > 1 and not (i == 0 and anchor == "proximal") for i, u in enumerate(batch.updates))

    def update(
        self,
        batch: PackedBatch,
        index: int,
        prepared: Mapping[int, Prepared],
        meter: StepMeter,
        *,
        anchor: str,
        clip_scale: float,
    ) -> None:
        """Accumulate over the micro-batches of update ``index``, sum over ranks, step. A loss, log-probability or
        gradient that is not finite anywhere skips the update on every rank, and is counted; so is one in which masks
        of this moment have left no token."""
        work = _Update(self, batch, index, prepared, meter, anchor, clip_scale)
        total, finite = work.accumulate()
        counts = (float(not finite), work.entropy_sum, float(work.num_tokens), float(work.num_active))
        sums = self._ranks.sum_values(total, *counts)
        if sums[1]:
            self._optimizer.zero_grad()
            meter.num_nonfinite += 1
            return
        if not sums[4] and self._objective.all_corrected:
            self._optimizer.zero_grad()
            meter.num_empty += 1
            return
        self._optimizer.sum_gradients(self._ranks)
        outcome = self._optimizer.apply()
        meter.add_update(sums[0], outcome, {**work.figures.stats, **self._objective.state_metrics(self.state)})
        if outcome.applied and sums[3]:
            self.state = self._objective.next_state(self.state, entropy=sums[2] / sums[3])


class _Update:
    """The work of one update on this rank."""

    def __init__(
        self,
        owner: Updater,
        batch: PackedBatch,
        index: int,
        prepared: Mapping[int, Prepared],
        meter: StepMeter,
        anchor: str,
        clip_scale: float,
    ) -> None:
        self._policy, self._objective, self._ranks = owner._policy, owner._objective, owner._ranks
        self._state, self._mask, self._seed = owner.state, owner._mask, owner._seed
        self._batch, self._index, self._prepared, self._meter = batch, index, prepared, meter
        self._micros: Sequence[MicroBatch] = batch.updates[index]
        self._anchor, self._clip_scale = anchor, clip_scale
        self.figures = UpdateFigures()
        self.entropy_sum = 0.0
        self.num_tokens = 0
        self.num_active = 0  # tokens that loss weight and masks leave in the policy term

    def accumulate(self) -> tuple[float, bool]:
        """Gradients of all micro-batches; the loss so far, and whether everything was finite."""
        selected: list[Tensor | None] = [None] * len(self._micros)
        together = len(self._micros) == 1  # figures of the update then come from the pass that trains it
        if self._objective.needs_figures and not together:
            selected = self._figures([self._scores_before(micro) for micro in self._micros])
        total, finite = 0.0, True
        for micro, chosen in zip(self._micros, selected, strict=True):
            loss, fine = self._backward(micro, chosen, together)
            total, finite = total + loss, finite and fine
            if not finite and self._ranks.size == 1:
                break
        return total, finite

    def _scores_before(self, micro: MicroBatch) -> HeadScores:
        """At the weights this update starts from; those of the step's start are known already."""
        start = self._prepared[id(micro)].start
        return start if self._index == 0 and start is not None else self._policy.scores_only(self._batch, micro)

    def _figures(self, scores: Sequence[HeadScores]) -> list[Tensor | None]:
        """Work out the figures of the whole update; returns the selection of each micro-batch."""
        number = self._batch.step * len(self._batch.updates) + self._index
        parts = []
        for micro, seen in zip(self._micros, scores, strict=True):
            known = self._prepared[id(micro)]
            noise = (self._seed, number)
            parts.append(
                tokens_of(self._batch, micro, known, seen.logprob, self._anchor_of(known), seen.entropy, noise)
            )
        whole, begin = joined(parts, self._ranks)
        self.figures = self._objective.figures(whole, self._state, clip_scale=self._clip_scale)
        return split_selected(self.figures, begin, [len(part.logprob) for part in parts])

    def _anchor_of(self, known: Prepared) -> Tensor:
        return known.start.logprob if self._anchor == "proximal" and known.start is not None else known.behaviour

    def _backward(self, micro: MicroBatch, selected: Tensor | None, together: bool) -> tuple[float, bool]:
        """Forward and backward of one micro-batch: its share of the loss, and whether all of it was finite."""
        if not micro.trainable.any():
            if together and self._objective.needs_figures:
                self._figures([self._policy.scores_only(self._batch, micro)])  # the other ranks wait for this one
            return 0.0, True
        known = self._prepared[id(micro)]
        scores = self._policy.scores(self._batch, micro, entropy_grad=self._objective.entropy_has_grad)
        if together and self._objective.needs_figures:
            (selected,) = self._figures([scores])
        x = self._inputs(known, scores, selected)
        token_loss = self._objective.loss(x, self.figures, self._state, clip_scale=self._clip_scale)
        loss = (token_loss.value * known.weight).sum()
        if not bool(torch.isfinite(loss) & torch.isfinite(scores.logprob).all()):
            return float(loss.detach()), False
        loss.backward()
        self._note(micro, known, scores, x, token_loss)
        return float(loss.detach()), True

    def _inputs(self, known: Prepared, scores: HeadScores, selected: Tensor | None) -> LossInputs:
        return LossInputs(
            logprob=scores.logprob,
            anchor_logprob=self._anchor_of(known),
            advantage=known.advantage,
            segment=known.segment,
            reference_logprob=known.reference,
            entropy=scores.entropy,
            correction_weight=self._correction(known, scores),
            selected=selected,
        )

    def _correction(self, known: Prepared, scores: HeadScores) -> Tensor | None:
        """Weights on the policy term: what a mask of this moment takes out stays in the counts behind the averages."""
        if self._mask is None:
            return known.correction
        kept = off_policy_sequence_mask(
            scores.logprob, known.behaviour, known.advantage, known.segment, delta=self._mask.delta
        )
        self._meter.add_masked(1 - kept)
        return kept if known.correction is None else known.correction * kept

    def _note(
        self, micro: MicroBatch, known: Prepared, scores: HeadScores, x: LossInputs, token_loss: TokenLoss
    ) -> None:
        seen, entropy = scores.logprob.detach(), scores.entropy.detach()
        active = known.weight if x.correction_weight is None else known.weight * x.correction_weight
        self.num_active += int(active.count_nonzero())
        self.entropy_sum += float(entropy.double().sum())
        self.num_tokens += len(seen)
        drift = (seen - known.behaviour).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
        self._meter.add_tokens(
            token_loss,
            update=self._index,
            behaviour_ratio=drift.exp(),
            entropy=entropy,
            advantage=x.advantage,
            logprob=seen,
            correction=known.correction,
        )
        if self._index == 0:
            start = seen if known.start is None else known.start.logprob
            current = torch.from_numpy(micro.policy_version[micro.trainable] == self._batch.step).to(seen.device)
            self._meter.add_mismatch((known.behaviour - start)[current])
