"""A tiny random model on disk, and steps of made-up rollouts for it."""

import dataclasses

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from headrace.advantages.group_relative import with_advantages
from headrace.config.algorithm import AlgorithmSection
from headrace.config.losses import CISPO, PPOClip
from headrace.config.sections import BatchSection, ModelSection, OptimizerSection, Recipe
from headrace.packing.batch import pack
from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions
from headrace.training.trainer import PolicyTrainer

VOCAB = 24


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=True,
        max_position_embeddings=128,
    )
    folder = tmp_path_factory.mktemp("model")
    Qwen3ForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return str(folder)


@pytest.fixture
def make_recipe():
    def build(loss=None, *, dtype="float32", checkpointing=False, minibatches=1, epochs=1, lr=1e-3, warmup=0):
        return Recipe(
            model=ModelSection(dtype=dtype, gradient_checkpointing=checkpointing),
            batch=BatchSection(num_minibatches=minibatches, num_epochs=epochs),
            algorithm=AlgorithmSection(loss=loss or PPOClip(name="ppo_clip")),
            optimizer=OptimizerSection(lr=lr, warmup=warmup),
        )

    return build


@pytest.fixture
def cispo():
    return CISPO(name="cispo", ratio_max=5.0)


@pytest.fixture
def make_trainer(model_folder, make_recipe):
    def build(recipe=None, *, total_steps=10, lineage=0):
        return PolicyTrainer(model_folder, recipe or make_recipe(), total_steps=total_steps, lineage=lineage)

    return build


@pytest.fixture
def make_groups():
    def build(*, seed=0, version=0, groups=4, size=4, logprob=None):
        rng = np.random.default_rng(seed)
        return [_group(rng, number, size, version, logprob) for number in range(groups)]

    return build


def _group(rng, number, size, version, logprob):
    prompt_ids = rng.integers(VOCAB, size=int(rng.integers(2, 5))).astype(np.int32)
    prompt = Prompt(prompt_id=str(number), source="t", text="", token_ids=prompt_ids, row={})
    rollouts = []
    for index in range(size):
        n = int(rng.integers(3, 9))
        completion = Completion(
            request_id="",
            token_ids=rng.integers(VOCAB, size=n).astype(np.int32),
            logprob=np.full(n, -np.log(VOCAB) if logprob is None else logprob, np.float32),
            policy_version=np.full(n, version, np.int32),
            finish_reason="stop",
        )
        rollout = rollout_from_completions(
            prompt, completion, rollout_id=f"{number}.{index}", group_id=str(number), seed=0, temperature=1.0
        )
        rollouts.append(dataclasses.replace(rollout, verdict=Verdict(reward=float(index % 2))))
    return Group(group_id=str(number), prompt=prompt, admission=number, rollouts=tuple(rollouts))


@pytest.fixture
def make_batch(make_groups):
    def build(groups=None, *, step=0, max_lag=4, **changes):
        filled = with_advantages(groups or make_groups(version=step), mean="group", scale="group")
        settings = {
            "lineage": 0,
            "loss_weight": "token_mean",
            "num_minibatches": 1,
            "num_epochs": 1,
            "micro_batch_tokens": 256,
        }
        return pack(filled, step=step, max_lag=max_lag, **(settings | changes))

    return build
