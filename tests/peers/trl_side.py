"""TRL's own ``_compute_loss`` and advantage code, run on a stand-in for the trainer.

GRPOTrainer keeps its formulas inside methods. They are called unbound here, with an object that answers what they read:
log-probabilities come from the test instead of a model, and everything after that is TRL's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl.experimental.gmpo import GMPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer

from tests.peers.batch import HORIZON, Batch

# Headrace's loss weight -> TRL's loss_type
LOSS_TYPE = {"token_mean": "dapo", "sample_mean": "grpo", "constant": "dr_grpo"}


class _OneProcess:
    """The accelerator of a run with one process."""

    num_processes = 1
    process_index = 0
    sync_gradients = True
    device = torch.device("cpu")

    def reduce(self, x: Tensor, reduction: str) -> Tensor:
        return x

    def gather(self, x: Tensor) -> Tensor:
        return x


def stand_in(**keys: Any) -> SimpleNamespace:
    """What the methods read of a trainer, with TRL's defaults; ``keys`` override, nested ones as ``args_NAME``."""
    args = SimpleNamespace(
        delta=None,
        use_bias_correction_kl=False,
        steps_per_generation=1,
        gradient_accumulation_steps=1,
        gradient_checkpointing_kwargs=None,
        per_device_train_batch_size=4,
        sapo_temperature_pos=1.0,
        sapo_temperature_neg=1.05,
    )
    trainer = SimpleNamespace(
        accelerator=_OneProcess(),
        args=args,
        aux_loss_enabled=False,
        beta=0.0,
        current_gradient_accumulation_steps=1,
        epsilon_high=0.2,
        epsilon_low=0.2,
        importance_sampling_level="token",
        loss_type="dapo",
        max_completion_length=HORIZON,
        model=SimpleNamespace(training=True, is_gradient_checkpointing=False),
        off_policy_mask_threshold=None,
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        top_entropy_quantile=1.0,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        use_adaptive_entropy=False,
        _entropy_bonus_enabled=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )
    for name, value in keys.items():
        owner = args if name.startswith("args_") else trainer
        setattr(owner, name.removeprefix("args_"), value)
    return trainer


def policy_loss(
    batch: Batch,
    trainer: SimpleNamespace,
    *,
    advantage: Tensor | None = None,
    correction: Tensor | None = None,
    entropy: Tensor | None = None,
    num_items: int | None = None,
    method: Callable[..., Tensor] = GRPOTrainer._compute_loss,
) -> Callable[[Tensor], Tensor]:
    """TRL's loss as a function of padded log-probabilities. ``num_items``: tokens of the whole generation batch."""
    mask = batch.mask.to(torch.int64)
    inputs = {
        "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.int64),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.int64),
        "completion_ids": torch.zeros_like(mask),
        "completion_mask": mask,
        "advantages": batch.advantage if advantage is None else advantage,
        "old_per_token_logps": batch.old,
        "ref_per_token_logps": batch.reference,
        "num_items_in_batch": torch.tensor(num_items or int(mask.sum())),
    }
    if correction is not None:
        trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
        inputs["importance_sampling_ratio"] = correction

    def loss_of(logprob: Tensor) -> Tensor:
        entropies = torch.zeros_like(logprob) if entropy is None else entropy
        trainer._get_per_token_logps_and_entropies = lambda *args, **kwargs: (logprob, entropies, None)
        return method(trainer, None, inputs)

    return loss_of


def gmpo(batch: Batch, trainer: SimpleNamespace) -> Callable[[Tensor], Tensor]:
    """The loss of TRL's experimental GMPO trainer."""
    return policy_loss(batch, trainer, advantage=batch.row_advantage, method=GMPOTrainer._compute_loss)


def scored(rewards: Tensor, *, group_size: int, batch: Batch | None = None, **keys: Any) -> dict[str, Tensor]:
    """What ``_generate_and_score_completions`` makes of rewards [B] float64: ``advantages`` [B], and with ``batch``
    and a ``vllm_importance_sampling_mode`` in ``keys`` also ``importance_sampling_ratio``."""
    count = len(rewards)
    lengths = [1] * count if batch is None else batch.lengths.tolist()
    sampled = None if batch is None else [batch.behaviour[i, :n].tolist() for i, n in enumerate(lengths)]
    width = max(lengths)
    completions = [[7] * n for n in lengths]
    generated = ([[1]] * count, completions, None, ["x"] * count, sampled, {}, None, None)
    score = None if batch is None else batch.old[:, :width]
    trainer = stand_in(
        environment_factories=None,
        environments=None,
        tools=None,
        pad_to_multiple_of=None,
        mask_truncated_completions=False,
        num_iterations=1,
        num_generations=group_size,
        multi_objective_aggregation="sum_then_normalize",
        reward_weights=torch.ones(1, dtype=torch.float64),
        reward_funcs=[None],
        reward_func_names=["reward"],
        log_multimodal=False,
        _is_vlm=False,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _generate=lambda prompts: generated,
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (score, None, None),
        _calculate_rewards=lambda *args: rewards[:, None].clone(),
        _logs=defaultdict(list, rewards=defaultdict(list), extra=defaultdict(list)),
        _pending_extra_logs={},
        _pending_metrics={},
        **keys,
    )
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = batch is not None
    return GRPOTrainer._generate_and_score_completions(trainer, [{"prompt": "p"}] * count)
