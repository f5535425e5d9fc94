"""``max_lag: 0`` is the plain synchronous loop of examples/02, bit for bit."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.config.load import load_recipe
from headrace.tracking.metrics_log import read_metrics
from headrace.tracking.rollout_store import read_rollouts

ROOT = Path(__file__).resolve().parents[2]
OVERRIDES = (
    "async.max_lag=0",
    "generator.deterministic=true",
    "run.steps=3",
    "run.seed=5",
    "batch.groups_per_step=8",
    "eval.num_prompts=16",
    "eval.every_steps=0",
)


def plain_loop_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plain_loop", ROOT / "examples" / "02_plain_loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_max_lag_0_equals_the_plain_loop_bit_for_bit(run_headrace: Callable[..., tuple]) -> None:
    code, output, runs = run_headrace("demo", *OVERRIDES)
    assert code == 0, output
    (folder,) = runs.iterdir()

    from safetensors.numpy import load_file

    recipe = load_recipe("demo", list(OVERRIDES))
    losses, rewards, lengths = [], [], []
    trainer = None
    for result, rollouts, trainer in plain_loop_module().plain_loop(recipe, 3):  # noqa: B007
        losses.append(result.metrics["loss/value"])
        rewards.append([r.verdict.reward for r in rollouts])
        lengths.append([r.num_trainable for r in rollouts])

    assert [row["metrics"]["loss/value"] for row in read_metrics(folder)] == losses
    rows = read_rollouts(folder).to_pylist()
    for step in range(3):
        of_step = [row for row in rows if row["step"] == step + 1]
        assert [row["reward"] for row in of_step] == rewards[step]
        assert [row["num_tokens"] for row in of_step] == lengths[step]
        assert {row["lag"] for row in of_step} == {0}

    assert trainer is not None
    weights = load_file(folder / "checkpoints" / "step_000003" / "trainer" / "model" / "model.safetensors")
    expected = dict(trainer._model.named_parameters())
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        assert np.array_equal(weights[name], value.detach().numpy()), name


@pytest.mark.slow
def test_asynchrony_changes_the_numbers(run_headrace: Callable[..., tuple]) -> None:
    """The test above could pass if the bound did nothing; with max_lag 2 the second step trains older tokens."""
    overrides = [o for o in OVERRIDES if not o.startswith("async.")]
    code, output, runs = run_headrace("demo", "async.max_lag=2", *overrides)
    assert code == 0, output
    (folder,) = runs.iterdir()
    assert {row["lag"] for row in read_rollouts(folder).to_pylist()} > {0}
