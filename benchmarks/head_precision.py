"""The LM head in float32 against bfloat16, on both sides: what it does to the mismatch of engine and trainer, and to
learning.

    .venv/bin/python benchmarks/head_precision.py --json OUT [--steps 24] [--seeds 0,1,2]

The plain loop of ``examples/02`` with the recipe ``bundled/off-policy`` (two updates a batch), as it is and with
hidden states, head weights and logits rounded to bfloat16 in engine and trainer, as a bfloat16 product gives them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from headrace.config.load import load_recipe
from headrace.models import lm_head
from headrace.models.fast_forward import decoder

ROOT = Path(__file__).resolve().parents[1]
LAST = 4  # steps whose pass rate is averaged at the end


def rounded(values: Tensor) -> Tensor:
    return values.to(torch.bfloat16).to(values.dtype)


@contextmanager
def bfloat16_head() -> Iterator[None]:
    """Both heads round what goes in and what comes out; sums are kept in float32, as the hardware keeps them."""
    tiles, logits = lm_head._tiles, decoder.head_logits

    def rounded_tiles(states: Tensor, weight: Tensor, *, buffers: int) -> Iterator[Any]:
        for start, tile, rows, first, *rest in tiles(rounded(states), rounded(weight), buffers=buffers):
            first.copy_(rounded(first))
            yield (start, tile, rows, first, *rest)

    def rounded_logits(hidden: Tensor, head: Tensor) -> Tensor:
        return rounded(logits(rounded(hidden), rounded(head)))

    with mock.patch.object(lm_head, "_tiles", rounded_tiles), mock.patch.object(decoder, "head_logits", rounded_logits):
        yield


def plain_loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plain_loop", ROOT / "examples" / "02_plain_loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(steps: int, seed: int) -> dict[str, float]:
    """Pass rate of the last steps, and the mean mismatch of all."""
    overrides = ["async.max_lag=0", "generator.deterministic=true", f"run.steps={steps}", f"run.seed={seed}"]
    recipe = load_recipe("bundled/off-policy", overrides)
    rates, metrics = [], []
    for result, rollouts, _ in plain_loop().plain_loop(recipe, steps):
        rates.append(statistics.mean(r.verdict.passed for r in rollouts if r.verdict is not None))
        metrics.append(result.metrics)
    names = ("loss/mismatch_kl", "loss/mismatch_abs_max", "loss/clip_frac_low", "loss/clip_frac_high", "loss/entropy")
    found = {name: statistics.mean(m[name] for m in metrics if name in m) for name in names}
    return found | {"pass_rate": statistics.mean(rates[-LAST:])}


def main() -> None:
    parser = argparse.ArgumentParser(description="The LM head in float32 against bfloat16.")
    parser.add_argument("--json", required=True)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {"float32": [], "bfloat16": []}
    for seed in map(int, arguments.seeds.split(",")):
        results["float32"].append(run(arguments.steps, seed))
        with bfloat16_head():
            results["bfloat16"].append(run(arguments.steps, seed))
        for name, rows in results.items():
            print(seed, name, {key: round(value, 6) for key, value in rows[-1].items()}, flush=True)
    Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
