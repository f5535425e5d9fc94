"""The first part of a step: everything that is fixed before its updates, at the weights the step starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headrace.config.algorithm import AlgorithmSection, GroupRelative
from headrace.models.lm_head import HeadScores
from headrace.objectives.corrections import importance_weight
from headrace.objectives.kl import kl_estimate
from headrace.objectives.ratio import bounded
from headrace.records import MicroBatch, PackedBatch
from headrace.training.critic import Critic
from headrace.training.ranks import Ranks
from headrace.training.reward_penalty import penalised_advantages
from headrace.training.scoring import Scorer
from headrace.training.token_advantages import TokenTargets, build_token_rule, token_targets

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One micro-batch's trainable tokens before the updates; tensors [T] on the policy's device."""

    behaviour: Tensor
    advantage: Tensor
    weight: Tensor  # loss weight, float64
    segment: Tensor  # int64
    start: HeadScores | None  # at the step's first weights; None when nothing asks for it
    reference: Tensor | None
    correction: Tensor | None
    old_values: Array | None = None
    returns: Array | None = None


class Preparation:
    """Prepares steps of one recipe. ``reference`` and ``critic`` are there when the recipe wants them."""

    def __init__(
        self, algorithm: AlgorithmSection, policy: Scorer, reference: Scorer | None, critic: Critic | None, ranks: Ranks
    ) -> None:
        self._algorithm = algorithm
        self._policy, self._reference, self._critic, self._ranks = policy, reference, critic, ranks
        self._rule = build_token_rule(algorithm.advantage.model_dump())
        kl = algorithm.kl
        self._penalty = kl if kl is not None and kl.into == "reward" else None

    @property
    def num_models(self) -> int:
        """Forward passes beside the policy's own: reference and value model."""
        return (self._reference is not None) + (self._critic is not None)

    def wants_start(self, anchor: str) -> bool:
        """Whether the policy is run once before the updates."""
        return anchor == "proximal" or self._penalty is not None

    def run(self, batch: PackedBatch, *, anchor: str) -> dict[int, Prepared]:
        """What is known of every micro-batch of a step, by its identity."""
        micros = distinct(batch)
        start: dict[int, HeadScores] = {}
        if self.wants_start(anchor):
            start = {id(m): self._policy.scores_only(batch, m) for m in micros}
        reference: dict[int, Tensor] = {}
        if self._reference is not None:
            reference = {id(m): self._reference.scores_only(batch, m).logprob.to(self._policy.device) for m in micros}
        values, ends = self._values(batch, micros)
        targets = self._targets(batch, micros, start, reference, values, ends)
        return {
            id(m): self._one(m, anchor, start.get(id(m)), reference.get(id(m)), values.get(id(m)), targets.get(id(m)))
            for m in micros
        }

    def _values(self, batch: PackedBatch, micros: list[MicroBatch]) -> tuple[dict[int, Array], dict[int, float]]:
        if self._critic is None:
            return {}, {}
        cut = batch.truncated if self._rule is not None and self._rule.bootstrap_truncated else None
        values: dict[int, Array] = {}
        ends: dict[int, float] = {}
        for micro in micros:
            values[id(micro)], after = self._critic.values_and_ends(micro, cut)
            ends |= after
        return values, ends

    def _targets(
        self,
        batch: PackedBatch,
        micros: list[MicroBatch],
        start: Mapping[int, HeadScores],
        reference: Mapping[int, Tensor],
        values: Mapping[int, Array],
        ends: Mapping[int, float],
    ) -> dict[int, TokenTargets]:
        """Advantages that read a model; {} when those of the batch stand."""
        kl = self._token_penalty(micros, start, reference)
        coef = self._penalty.coef if self._penalty is not None else 0.0
        if self._rule is not None:
            return token_targets(
                self._rule,
                batch.updates,
                rewards=batch.rewards,
                group_index=batch.group_index,
                values=values or None,
                end_values=ends,
                kl=kl or None,
                kl_coef=coef,
                ranks=self._ranks,
            )
        if not kl:
            return {}
        part = self._algorithm.advantage
        assert isinstance(part, GroupRelative)
        tolerance = self._algorithm.zero_variance_tolerance
        return penalised_advantages(batch, micros, kl, coef, part, tolerance, self._ranks)

    def _token_penalty(
        self, micros: list[MicroBatch], start: Mapping[int, HeadScores], reference: Mapping[int, Tensor]
    ) -> dict[int, Array]:
        """Estimate of log pi - log pi_reference at each token, what the reward loses a multiple of. The log ratio is
        held within +-20: one token that the reference rules out must not make a reward infinite."""
        if self._penalty is None:
            return {}
        estimates = {}
        for micro in micros:
            ratio = bounded(start[id(micro)].logprob - reference[id(micro)])
            estimate = kl_estimate(ratio, torch.zeros_like(ratio), self._penalty.estimator)
            estimates[id(micro)] = estimate.double().cpu().numpy()
        return estimates

    def _one(
        self,
        micro: MicroBatch,
        anchor: str,
        start: HeadScores | None,
        reference: Tensor | None,
        values: Array | None,
        targets: TokenTargets | None,
    ) -> Prepared:
        flat = self._policy.flat
        behaviour, segment = flat(micro, micro.behaviour_logprob), flat(micro, micro.segment).long()
        correction = None
        part: Any = self._algorithm.correction
        if anchor == "proximal" and start is not None and part is not None:
            correction = importance_weight(start.logprob, behaviour, segment, **part.model_dump())
        advantage = flat(micro, micro.advantage)
        if targets is not None:
            advantage = torch.from_numpy(targets.advantage).to(advantage)
        return Prepared(
            behaviour=behaviour,
            advantage=advantage,
            weight=flat(micro, micro.loss_weight),
            segment=segment,
            start=start,
            reference=reference,
            correction=correction,
            old_values=values,
            returns=None if targets is None else targets.returns,
        )


def distinct(batch: PackedBatch) -> list[MicroBatch]:
    """The micro-batches of a step, each once (epochs share them)."""
    return list({id(micro): micro for update in batch.updates for micro in update}.values())
