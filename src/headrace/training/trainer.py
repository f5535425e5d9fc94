"""One trainer: prepare, updates, publish. It knows no algorithm; a kernel, weights and an anchor rule come as data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from headrace.config.sections import Recipe
from headrace.curation.schedules import warmup_updates
from headrace.models.loading import load_causal_lm
from headrace.models.logprobs import head_weight, row_tensors, trainable_logprobs
from headrace.objectives.corrections import truncated_importance
from headrace.objectives.inputs import LossInputs
from headrace.objectives.ratio import LOG_RATIO_BOUND
from headrace.objectives.table import build_kernel, loss_named
from headrace.records import MicroBatch, PackedBatch, StepResult, WeightUpdate
from headrace.training.checkpointing import TrainerState, load_trainer, save_trainer
from headrace.training.checks import check_batch, check_lag
from headrace.training.flops import FlopCounter
from headrace.training.metrics import StepMeter
from headrace.training.optimizer import PolicyOptimizer
from headrace.training.publishing import fill_buffer, plan_buffer, probe_scores, probe_sequences
from headrace.training.ranks import Ranks


class PolicyTrainer:
    """Trains the causal language model in ``folder`` by ``recipe``; implements ``protocols.Trainer``.

    The model computes with the published weights (``recipe.model.dtype``); float32 masters are the optimiser's.
    ``total_steps`` is the length of the whole run, resumed parts included (a fractional warm-up refers to it);
    ``lineage`` numbers the resumes. Compute threads are set by the process that owns the trainer. With several
    ``ranks`` every one gets the same batches and ends each step with the same weights; rank 0 has the metrics of all.
    """

    def __init__(
        self, folder: str, recipe: Recipe, *, total_steps: int, lineage: int = 0, ranks: Ranks | None = None
    ) -> None:
        self._ranks = ranks or Ranks()
        self.version = 0
        self.lineage = lineage
        self.num_skipped_updates = 0
        self._folder = folder
        self._device = recipe.trainer.device
        self._model = load_causal_lm(folder, dtype=recipe.model.dtype, device=self._device)
        _set_mode(self._model, recipe.model.gradient_checkpointing)
        head_weight(self._model)  # a model whose head cannot be trained is refused before the first step
        updates = total_steps * recipe.batch.num_minibatches * recipe.batch.num_epochs
        warmup = warmup_updates(recipe.optimizer.warmup, updates)
        self._optimizer = PolicyOptimizer(self._model, recipe.optimizer, warmup=warmup)
        section = recipe.algorithm.loss.model_dump()
        self._kernel = build_kernel(section)
        self._loss = loss_named(section["name"])
        self._flops = FlopCounter(self._model)
        self._specs = plan_buffer(self._model.named_parameters())
        self._probes = probe_sequences(self._model.config.get_text_config().vocab_size)

    def step(self, batch: PackedBatch) -> StepResult:
        """Train one batch and advance the version.

        Raises ``RecordError`` for a batch cut for another step or lineage, ``LagViolation`` for a token out of bounds.
        """
        begun = time.perf_counter()
        check_batch(batch, version=self.version, lineage=self.lineage)
        meter = StepMeter()
        flops = sum(self._flops.training(micro) for update in batch.updates for micro in update)
        for micro in _distinct(batch):
            meter.add_lag(batch.step - micro.policy_version[micro.trainable])
        signal = [any(bool((micro.loss_weight != 0).any()) for micro in update) for update in batch.updates]
        mine = self._ranks.share(batch)
        proximal = self._prepare(mine, meter)
        if proximal:
            flops += sum(self._flops.forward(micro) for micro in _distinct(batch))
        for index, update in enumerate(mine.updates):
            if signal[index]:
                self._update(mine, update, index, proximal, meter)
            else:
                meter.num_empty += 1
        metrics = meter.merged(self._ranks).result()
        self.num_skipped_updates += int(metrics["trainer/num_skipped_updates"])
        self.version += 1
        metrics |= {
            "trainer/tokens": float(batch.num_tokens),
            "trainer/flops": flops,
            "trainer/step_s": time.perf_counter() - begun,
        }
        return StepResult(step=batch.step, version=self.version, metrics=metrics)

    def publishable(self) -> WeightUpdate:
        """The working weights, bit for bit, with the scores they give the probe sequences."""
        return WeightUpdate(
            lineage=self.lineage,
            version=self.version,
            kind="full",
            specs=self._specs,
            buffer=fill_buffer(self._model.named_parameters(), self._specs),
            probe=probe_scores(self._model, self._probes),
        )

    def save(self, folder: str) -> None:
        """Write model, optimiser and counters into ``folder`` (see ``checkpointing``)."""
        state = TrainerState(version=self.version, num_skipped_updates=self.num_skipped_updates)
        optimizer = self._optimizer.state_dict()
        save_trainer(folder, model=self._model, source=self._folder, optimizer=optimizer, state=state)

    def load(self, folder: str) -> None:
        """Take up what ``save`` wrote; the lineage stays the one this trainer was built with."""
        optimizer, state = load_trainer(folder, model=self._model)
        self._optimizer.load_state_dict(optimizer)
        self.version, self.num_skipped_updates = state.version, state.num_skipped_updates

    def _prepare(self, batch: PackedBatch, meter: StepMeter) -> dict[int, Tensor]:
        """Log-probabilities at the weights the step starts from, by identity of the micro-batch; {} if not needed."""
        for micro in _distinct(batch):
            check_lag(micro, step=batch.step, max_lag=batch.max_lag)
        if self._loss.anchor_for(len(batch.updates)) == "behaviour":
            return {}
        proximal: dict[int, Tensor] = {}
        with torch.no_grad():
            for micro in _distinct(batch):
                rows = row_tensors(micro, self._device)
                scores = trainable_logprobs(self._model, rows, temperature=batch.temperature)
                proximal[id(micro)] = scores.logprob
                self._note_mismatch(micro, batch.step, scores.logprob, meter)
        return proximal

    def _update(
        self,
        batch: PackedBatch,
        update: Sequence[MicroBatch],
        index: int,
        proximal: dict[int, Tensor],
        meter: StepMeter,
    ) -> None:
        """One optimiser step; its loss is the sum over all tokens of value * weight, however they are split."""
        total, finite = 0.0, True
        for micro in update:
            check_lag(micro, step=batch.step, max_lag=batch.max_lag)
            loss, fine = self._backward(batch, micro, proximal.get(id(micro)), meter, first=index == 0)
            total, finite = total + loss, finite and fine
            if not finite:
                break
        total, num_failed = self._ranks.sum_values(total, float(not finite))
        if num_failed:
            self._optimizer.zero_grad()
            meter.num_nonfinite += 1
            return
        self._optimizer.sum_gradients(self._ranks)
        meter.add_update(total, self._optimizer.apply())

    def _backward(
        self, batch: PackedBatch, micro: MicroBatch, proximal: Tensor | None, meter: StepMeter, *, first: bool
    ) -> tuple[float, bool]:
        """Forward and backward of one micro-batch: its share of the loss, and whether all of it was finite."""
        if not micro.trainable.any():
            return 0.0, True
        rows = row_tensors(micro, self._device)
        scores = trainable_logprobs(self._model, rows, temperature=batch.temperature)
        behaviour = self._flat(micro, micro.behaviour_logprob)
        x = LossInputs(
            logprob=scores.logprob,
            anchor_logprob=behaviour if proximal is None else proximal,
            advantage=self._flat(micro, micro.advantage),
            segment=self._flat(micro, micro.segment).long(),
            entropy=scores.entropy,
            correction_weight=None if proximal is None else truncated_importance(proximal, behaviour),
        )
        token_loss = self._kernel(x)
        loss = (token_loss.value * self._flat(micro, micro.loss_weight)).sum()
        if not bool(torch.isfinite(loss) & torch.isfinite(scores.logprob).all()):
            return float(loss.detach()), False
        loss.backward()
        seen = scores.logprob.detach()
        drift = (seen - behaviour).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
        meter.add_tokens(token_loss, behaviour_ratio=drift.exp(), entropy=scores.entropy, advantage=x.advantage)
        if first and proximal is None:
            self._note_mismatch(micro, batch.step, seen, meter)
        return float(loss.detach()), True

    def _note_mismatch(self, micro: MicroBatch, step: int, logprob: Tensor, meter: StepMeter) -> None:
        current = torch.from_numpy(micro.policy_version[micro.trainable] == step).to(logprob.device)
        meter.add_mismatch((self._flat(micro, micro.behaviour_logprob) - logprob)[current])

    def _flat(self, micro: MicroBatch, values: npt.NDArray[Any]) -> Tensor:
        """Values [R, W] at the trainable tokens, [T] on the model's device, in their own dtype."""
        return torch.from_numpy(values[micro.trainable]).to(self._device)


def _distinct(batch: PackedBatch) -> list[MicroBatch]:
    """The micro-batches of a step, each once (epochs share them)."""
    return list({id(micro): micro for update in batch.updates for micro in update}.values())


def _set_mode(model: Any, checkpointing: bool) -> None:
    """Evaluation mode: the trainer must score what the engine sampled, without dropout. Checkpointing needs training
    mode, so dropout is taken out of the modules themselves."""
    model.eval()
    if not checkpointing:
        return
    model.train()
    for module in model.modules():
        for name in ("p", "attention_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
