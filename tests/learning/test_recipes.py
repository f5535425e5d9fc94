"""Every recipe trains the bundled model upward. Nightly-sized: run it with ``make test-learning``."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RISE = 0.15
"""1,000 held-out problems have a standard error of .016: the rise asked for is six of a difference's."""


def _benchmark():
    spec = importlib.util.spec_from_file_location("recipes", ROOT / "benchmarks" / "recipes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECIPES = _benchmark()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", RECIPES.NAMES)
def test_a_recipe_raises_the_pass_rate(name, tmp_path):
    summary = RECIPES.train(name, 0, tmp_path)
    assert summary["pass_rate_after"] >= summary["pass_rate_before"] + RISE
    assert summary["max_lag_trained"] <= summary["max_lag"]
    assert summary["num_orphans"] == 0
