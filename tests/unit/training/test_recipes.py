"""Every bundled recipe, run dry: its batch is built and its trainer makes the steps, on a tiny model."""

import dataclasses

import numpy as np
import pytest

from headrace.config.load import bundled_recipes, load_recipe
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.batcher import Cut
from headrace.training.trainer import PolicyTrainer

SMALL = (
    "run.steps=3",
    "model=bundled",
    "batch.groups_per_step=16",
    "batch.micro_batch_tokens=30000",
    "optimizer.lr=1e-3",
    "optimizer.warmup=0",
)


def small(name):
    """The recipe with a run of three steps; where the value model is trained first, for one step."""
    more = ["batch.num_minibatches=8"] if name == "dapo" else []
    if load_recipe(name).algorithm.value is not None:
        more.append("algorithm.value.pretrain_steps=1")
    return load_recipe(name, [*SMALL, *more])


@pytest.mark.parametrize("name", bundled_recipes())
def test_a_recipe_trains_the_policy(name, model_folder, make_groups):
    recipe = small(name)
    trainer = PolicyTrainer(model_folder, recipe, total_steps=3)
    before = {key: p.detach().clone() for key, p in trainer._model.named_parameters()}
    builder = BatchBuilder(
        algorithm=recipe.algorithm, batch=recipe.batch, max_completion_tokens=recipe.sampling.max_completion_tokens
    )
    for step in range(2):
        groups = make_groups(seed=step, version=step, groups=16, size=max(recipe.batch.group_size, 2))
        groups = [dataclasses.replace(g, admission=16 * step + g.admission) for g in groups]
        _, batch = builder.build(Cut(step=step, groups=tuple(groups)), lineage=0, max_lag=0)
        metrics = trainer.step(batch).metrics
        waits = recipe.algorithm.value is not None and step == 0
        expected = recipe.batch.num_minibatches * recipe.batch.num_epochs
        assert metrics["trainer/num_updates"] == (0 if waits else expected)
        assert metrics["trainer/num_skipped_updates"] == 0
        assert all(np.isfinite(value) for value in metrics.values())
        if recipe.algorithm.value is not None:
            assert metrics["value/loss"] > 0
    assert trainer.version == 2
    moved = [float((p.detach() - before[key]).abs().max()) for key, p in trainer._model.named_parameters()]
    assert min(moved) > 0


def test_the_critic_recomputes_activations_too(model_folder, make_groups):
    losses = {}
    for checkpointing in ("false", "true"):
        overrides = [*SMALL, "algorithm.value.pretrain_steps=0", f"model.gradient_checkpointing={checkpointing}"]
        recipe = load_recipe("ppo", overrides)
        trainer = PolicyTrainer(model_folder, recipe, total_steps=3)
        builder = BatchBuilder(algorithm=recipe.algorithm, batch=recipe.batch, max_completion_tokens=64)
        groups = make_groups(groups=16, size=2)
        _, batch = builder.build(Cut(step=0, groups=tuple(groups)), lineage=0, max_lag=0)
        assert trainer._critic.model.body.is_gradient_checkpointing is (checkpointing == "true")
        losses[checkpointing] = trainer.step(batch).metrics["value/loss"]
    assert losses["true"] == pytest.approx(losses["false"], rel=1e-5)
