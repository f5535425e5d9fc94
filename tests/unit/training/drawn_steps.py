"""Steps of drawn rollouts for a tiny model: off-policy, with gaps, of uneven groups; and ways to lay them out."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

import headrace.packing.batch as packing
from headrace.config.validation import validate
from headrace.models.logprobs import score_sequences
from headrace.models.value_model import ValueModel
from headrace.packing.rows import Rows, plan_rows
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.batcher import Cut
from headrace.records import NO_VERSION, Group, Prompt, Rollout, Verdict
from headrace.training.optimizer import PolicyOptimizer
from headrace.training.trainer import PolicyTrainer

VOCAB = 16
STEP = 3
LIMIT = 12  # tokens of a completion
MAX_LAG = 3


def tiny_model():
    """Two layers, 16 wide, with an opinion: the entropy of its random start would be that of dice."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        tie_word_embeddings=True,
        max_position_embeddings=64,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.mul_(3)
    return model.eval()


def use_model(monkeypatch, model, *, dtype="float32", folders=()):
    """Trainers built from now on train a copy of ``model``, start from values that are not 0, keep their gradients.

    A KL penalty refers to a model that differs from the policy, unless it names one of ``folders``.
    """
    held = copy.deepcopy(model).to(getattr(torch, dtype))
    other = copy.deepcopy(held)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(0.9)
    loaded = "headrace.training.{}.load_causal_lm".format
    monkeypatch.setattr(loaded("trainer"), lambda *a, **k: copy.deepcopy(held))
    monkeypatch.setattr(loaded("reference"), lambda path, **k: copy.deepcopy(held if path in folders else other))
    monkeypatch.setattr(ValueModel, "from_folder", lambda *a, **k: _value_model(held))
    monkeypatch.setattr(PolicyOptimizer, "apply", _recording(PolicyOptimizer.apply))
    if dtype == "float64":
        monkeypatch.setattr(Qwen3RMSNorm, "forward", _exact_norm)


def _value_model(held):
    value = ValueModel(copy.deepcopy(held.base_model)).eval().to(held.dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # a head at 0 sends no gradient into the body
        value.head.weight.copy_(0.3 * torch.randn(value.head.weight.shape, generator=generator))
    return value


def _exact_norm(self, x):
    """The library's norm computes in float32 even in a float64 model."""
    return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)


def _recording(apply):
    def recorded(self):
        gradients = [p.grad.double().flatten() for p in self._masters.values() if p.grad is not None]
        self.__dict__.setdefault("recorded", []).append(torch.cat(gradients))
        return apply(self)

    return recorded


def recorded(trainer):
    """The gradient of every update that reached an optimiser: the policy's, then the critic's."""
    optimizers = [trainer._optimizer]
    if trainer._critic is not None:
        optimizers.append(trainer._critic._optimizer)
    return [gradient for optimizer in optimizers for gradient in optimizer.__dict__.get("recorded", [])]


def make_recipe(algorithm, **sections):
    """Two updates a step, and an Adam so blunt that rounding in a gradient stays rounding in the weights."""
    tree = {
        "sampling": {"max_completion_tokens": LIMIT},
        "batch": {"num_minibatches": 2},
        "optimizer": {"lr": 0.5, "eps": 1.0},
    }
    return validate({**tree, **sections, "algorithm": algorithm}, where=lambda path: "test")


def make_trainer(recipe, *, ranks=None, step=STEP, total_steps=10):
    trainer = PolicyTrainer("", recipe, total_steps=total_steps, ranks=ranks)
    trainer.version = step
    return trainer


def make_batch(recipe, groups, *, step=STEP, max_lag=MAX_LAG):
    builder = BatchBuilder(
        algorithm=recipe.algorithm,
        batch=recipe.batch,
        max_completion_tokens=recipe.sampling.max_completion_tokens,
    )
    return builder.build(_cut(groups, step), lineage=0, max_lag=max_lag)[1]


def _cut(groups, step):
    return Cut(step=step, groups=tuple(groups))


def draw_groups(rng, model, *, groups=5, whole=False, drift=0.4):
    """Groups of 1 to 4 rollouts with gaps, truncated ones, masked ones and members nobody could judge.

    ``whole``: groups of 4, all of them judged and without gaps. ``drift``: standard deviation of the log ratios.
    """
    found = [_group(rng, number, 4 if whole else int(rng.integers(1, 5)), whole) for number in range(groups)]
    rollouts = [r for g in found for r in g.rollouts]
    scores = iter(score_sequences(model, [r.token_ids for r in rollouts]))
    return [
        dataclasses.replace(g, rollouts=tuple(_off_policy(rng, r, next(scores), drift) for r in g.rollouts))
        for g in found
    ]


def _off_policy(rng, rollout, score, drift):
    """Sampled, so it says, by a policy that lies some way off the one that trains."""
    logprob = np.zeros(rollout.length, np.float32)
    logprob[1:] = np.minimum(score + rng.normal(0, drift, size=len(score)), -1e-3)
    return dataclasses.replace(rollout, behaviour_logprob=np.where(rollout.trainable, logprob, np.float32(0)))


def _group(rng, number, size, whole):
    prompt_ids = rng.integers(VOCAB, size=int(rng.integers(1, 6))).astype(np.int32)
    prompt = Prompt(prompt_id=str(number), source="t", text="", token_ids=prompt_ids, row={})
    rollouts = tuple(_rollout(rng, prompt, number, index, whole) for index in range(size))
    signal = whole or number == 0 or rng.random() > 0.1
    return Group(group_id=str(number), prompt=prompt, admission=number, rollouts=rollouts, signal=signal)


def _rollout(rng, prompt, number, index, whole):
    p, n = len(prompt.token_ids), int(rng.integers(1, LIMIT + 1))
    trainable = np.arange(p + n) >= p
    if not whole:
        trainable &= (rng.random(p + n) > 0.15) | (np.arange(p + n) == p)
    reward = float(index % 2) if whole else float(rng.choice([0.0, 1.0, rng.normal()]))
    judged = whole or rng.random() > 0.1
    return Rollout(
        rollout_id=f"{number}.{index}",
        group_id=str(number),
        prompt_id=str(number),
        source="t",
        seed=int(rng.integers(2**40)),
        temperature=1.0,
        token_ids=np.concatenate([prompt.token_ids, rng.integers(VOCAB, size=n)]).astype(np.int32),
        trainable=trainable,
        behaviour_logprob=np.zeros(p + n, np.float32),
        policy_version=np.where(trainable, STEP - rng.integers(0, MAX_LAG + 1), NO_VERSION).astype(np.int32),
        finish_reason="length" if rng.random() < 0.25 else "stop",
        verdict=Verdict(reward=reward, passed=reward > 0.5) if judged else Verdict(reward=None, error="judge down"),
    )


def lay_out(monkeypatch, rng, how):
    """Pack batches in another way from now on: 'planned' as always, 'alone' one rollout a row, 'drawn' at random."""

    def drawn(pieces, budget):
        total = len(pieces.own)
        order = rng.permutation(total) if how == "drawn" else np.arange(total)
        rows = [[int(i)] for i in order]
        if how == "drawn":
            rows = [r.tolist() for r in np.array_split(order, int(rng.integers(1, total + 1)))]
        parts = np.array_split(np.arange(len(rows)), int(rng.integers(1, min(4, len(rows)) + 1)))
        return tuple(_micro(pieces, [rows[i] for i in part]) for part in parts)

    monkeypatch.setattr(packing, "plan_rows", plan_rows if how == "planned" else drawn)


def _micro(pieces, rows):
    members = tuple(tuple(sorted(row, key=lambda i: pieces.group[i])) for row in rows)
    sizes = [
        sum(pieces.own[i] for i in r) + sum(pieces.prompt[g] for g in {pieces.group[i] for i in r}) for r in members
    ]
    return Rows(width=max(sizes), members=members, num_real=sum(sizes))
