"""One trainer: prepare, updates, publish. It knows no algorithm; objective, advantages and weights come as data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from headrace.config.algorithm import ValueSection
from headrace.config.sections import OptimizerSection, Recipe
from headrace.curation.schedules import warmup_updates
from headrace.models.loading import load_causal_lm
from headrace.models.value_model import ValueModel
from headrace.objectives.objective import AdaptiveState, build_objective
from headrace.records import PackedBatch, StepResult, WeightUpdate
from headrace.training.checkpointing import TrainerState, load_trainer, save_trainer
from headrace.training.checks import check_batch, check_lag
from headrace.training.clip_schedule import clip_scale
from headrace.training.critic import Critic
from headrace.training.flops import FlopCounter
from headrace.training.metrics import StepMeter
from headrace.training.optimizer import PolicyOptimizer
from headrace.training.prepare import Preparation, Prepared, distinct
from headrace.training.publishing import fill_buffer, plan_buffer, probe_scores, probe_sequences
from headrace.training.ranks import Ranks
from headrace.training.reference import frozen_reference
from headrace.training.rollout_advantages import makes_advantages, mean_advantages
from headrace.training.scoring import Scorer
from headrace.training.updater import Updater


class PolicyTrainer:
    """Trains the causal language model in ``folder`` by ``recipe``; implements ``protocols.Trainer``.

    The model computes with the published weights (``recipe.model.dtype``); float32 masters are the optimiser's.
    ``total_steps`` is the length of the whole run, resumed parts included (schedules in fractions refer to it);
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
        self._recipe = recipe
        self._total_steps = total_steps
        self._model = load_causal_lm(folder, dtype=recipe.model.dtype, device=recipe.trainer.device)
        _set_mode(self._model, recipe.model.gradient_checkpointing)
        policy = Scorer(self._model, recipe.trainer.device)
        updates = total_steps * recipe.batch.num_minibatches * recipe.batch.num_epochs
        self._optimizer = PolicyOptimizer(
            self._model, recipe.optimizer, warmup=warmup_updates(recipe.optimizer.warmup, updates)
        )
        self._objective = build_objective(recipe.algorithm.model_dump())
        self._critic = _critic(folder, recipe, self._ranks)
        reference = frozen_reference(folder, recipe) if self._objective.needs_reference else None
        self._preparation = Preparation(recipe.algorithm, policy, reference, self._critic, self._ranks)
        self._updater = Updater(policy, self._objective, self._optimizer, recipe, self._ranks)
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
        for micro in distinct(batch):
            check_lag(micro, step=batch.step, max_lag=batch.max_lag)
            meter.add_lag(batch.step - micro.policy_version[micro.trainable])
        signal = [any(bool((micro.loss_weight != 0).any()) for micro in update) for update in batch.updates]
        mine = self._ranks.share(batch)
        anchor = self._objective.anchor_for(len(batch.updates))
        prepared = self._preparation.run(mine, anchor=anchor) if any(signal) else {}
        critic_trains = self._critic is not None and self._critic.due(batch.step)
        policy_waits = self._critic is not None and self._critic.policy_waits(batch.step)
        scale = clip_scale(self._recipe.algorithm.clip_schedule, batch.step, self._total_steps)
        for index, has_signal in enumerate(signal):
            if not has_signal:
                meter.num_empty += 1
                continue
            if policy_waits:
                meter.num_waiting += 1
            else:
                self._updater.update(mine, index, prepared, meter, anchor=anchor, clip_scale=scale)
            if critic_trains:
                self._update_critic(mine, index, prepared)
        flops = self._step_flops(batch, anchor, prepared, critic_trains, policy_waits)
        return self._result(batch, meter, prepared, flops, begun)

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
        """Write model, optimiser, critic and counters into ``folder`` (see ``checkpointing``)."""
        state = TrainerState(
            version=self.version,
            num_skipped_updates=self.num_skipped_updates,
            adaptive=self._updater.state.to_dict(),
        )
        optimizer = self._optimizer.state_dict()
        save_trainer(folder, model=self._model, source=self._folder, optimizer=optimizer, state=state)
        if self._critic is not None:
            self._critic.save(folder)

    def load(self, folder: str) -> None:
        """Take up what ``save`` wrote; the lineage stays the one this trainer was built with."""
        optimizer, state = load_trainer(folder, model=self._model)
        self._optimizer.load_state_dict(optimizer)
        self.version, self.num_skipped_updates = state.version, state.num_skipped_updates
        self._updater.state = AdaptiveState.from_dict(state.adaptive)
        if self._critic is not None:
            self._critic.load(folder)

    def _update_critic(self, batch: PackedBatch, index: int, prepared: Mapping[int, Prepared]) -> None:
        assert self._critic is not None
        micros = batch.updates[index]
        known = [prepared[id(micro)] for micro in micros]
        self._critic.update(
            micros,
            returns=[_given(one.returns) for one in known],
            old_values=[_given(one.old_values) for one in known],
            weights=[micro.loss_weight[micro.trainable] for micro in micros],
        )

    def _result(
        self, batch: PackedBatch, meter: StepMeter, prepared: Mapping[int, Prepared], flops: float, begun: float
    ) -> StepResult:
        advantage = None
        if prepared and makes_advantages(self._recipe.algorithm):
            advantage = mean_advantages(prepared.values(), len(batch.rewards), self._ranks)
        metrics = meter.merged(self._ranks).result()
        if self._critic is not None:
            metrics |= self._critic.take_metrics()
        self.num_skipped_updates += int(metrics["trainer/num_skipped_updates"])
        self.version += 1
        metrics |= {
            "trainer/tokens": float(batch.num_tokens),
            "trainer/flops": flops,
            "trainer/step_s": time.perf_counter() - begun,
        }
        return StepResult(step=batch.step, version=self.version, metrics=metrics, advantage=advantage)

    def _step_flops(
        self,
        batch: PackedBatch,
        anchor: str,
        prepared: Mapping[int, Prepared],
        critic_trains: bool,
        policy_waits: bool,
    ) -> float:
        """Of the whole batch: forward and backward of every update, forward passes before them."""
        training = sum(self._flops.training(micro) for update in batch.updates for micro in update)
        num_trained = (not policy_waits) + critic_trains
        if not prepared:
            return num_trained * training
        passes = self._preparation.wants_start(anchor) + self._preparation.num_models
        forward = sum(self._flops.forward(micro) for micro in distinct(batch))
        return num_trained * training + passes * forward + self._updater.extra_passes(batch, anchor) * forward


def _critic(folder: str, recipe: Recipe, ranks: Ranks) -> Critic | None:
    section: ValueSection | None = recipe.algorithm.value
    if section is None:
        return None
    optimizer = recipe.optimizer.model_dump() | {"lr": section.lr, "max_grad_norm": section.max_grad_norm}
    model = ValueModel.from_folder(folder, dtype=recipe.model.dtype, device=recipe.trainer.device)
    _set_mode(model.body, recipe.model.gradient_checkpointing)
    return Critic(
        model,
        OptimizerSection(**optimizer),
        warmup=section.warmup,
        clip=section.clip,
        every=section.every,
        pretrain_steps=section.pretrain_steps,
        ranks=ranks,
    )


def _given(values: Any) -> Any:
    assert values is not None, "a recipe with a value model has advantages that read it"
    return values


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
