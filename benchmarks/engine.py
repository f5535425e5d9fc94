"""Generation on one thread: the embedded engine against what transformers offers.

    python benchmarks/engine.py --json out.json [--model FOLDER] [--smollm2 FOLDER]

64 requests of 64 tokens (SmolLM2: 16 of 16) with prompts of one length, which suits `generate` best, sampled at
temperature 1. All contestants run in one process, one after the other in every round, so that whatever else the
machine does meets them alike; the ratios are medians over rounds of the ratio within a round, by wall time and by
processor time. The embedded engine and continuous batching return log-probabilities, `generate` does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import transformers
from transformers import ContinuousBatchingConfig, GenerationConfig

from headrace.engines.embedded import EmbeddedEngine
from headrace.models.loading import load_causal_lm
from headrace.records import GenerationRequest

Contestant = Callable[[], int]  # runs the work once, returns the tokens it sampled
EMBEDDED = "embedded"


def embedded(folder: str, prompts: np.ndarray, new: int, **options: Any) -> Contestant:
    engine = EmbeddedEngine(folder, num_slots=len(prompts), max_len=prompts.shape[1] + new, **options)

    def run() -> int:
        for index, prefix in enumerate(prompts):
            engine.submit(
                GenerationRequest(
                    request_id=str(index),
                    prefix_ids=prefix.astype(np.int32),
                    seed=index,
                    temperature=1.0,
                    max_tokens=new,
                    stop_token_ids=(),
                )
            )
        tokens = 0
        while engine.num_active or engine.num_waiting:
            tokens += sum(len(completion.token_ids) for completion in engine.step())
        return tokens

    return run


def sampling(new: int, **more: Any) -> GenerationConfig:
    return GenerationConfig(do_sample=True, top_k=0, max_new_tokens=new, eos_token_id=None, pad_token_id=0, **more)


def generate(model: Any, prompts: np.ndarray, new: int, **more: Any) -> Contestant:
    ids = torch.from_numpy(prompts)
    config = sampling(new, **more)

    def run() -> int:
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        return (out.shape[1] - ids.shape[1]) * len(ids)

    return run


def continuous_batching(model: Any, prompts: np.ndarray, new: int) -> Contestant:
    page = 32
    pages = -(-(prompts.shape[1] + new) // page) + 1
    batching = ContinuousBatchingConfig(
        page_size=page,
        num_blocks=len(prompts) * pages,
        max_batch_tokens=max(256, prompts.size),
        return_logprobs=True,
        auto_switch_to_flash=False,
    )
    config = sampling(new)

    def run() -> int:
        with torch.inference_mode():
            out = model.generate_batch(
                prompts.tolist(), generation_config=config, continuous_batching_config=batching, warmup=False
            )
        assert all(len(o.logprobs) == len(o.generated_tokens) for o in out.values())
        return sum(len(o.generated_tokens) for o in out.values())

    return run


def race(contestants: dict[str, Contestant], rounds: int, expected: int) -> dict[str, dict[str, list[float]]]:
    """Wall and CPU seconds of each contestant in each round, after one round to warm up."""
    times: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in contestants}
    for index in range(rounds + 1):
        for name, run in contestants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if tokens != expected:
                raise RuntimeError(f"{name} sampled {tokens} tokens instead of {expected}")
            if index:
                times[name]["wall"].append(wall)
                times[name]["cpu"].append(cpu)
    return times


def summary(times: dict[str, dict[str, list[float]]], tokens: int) -> dict[str, Any]:
    return {
        "tokens_per_s": {n: round(tokens / statistics.median(t["wall"]), 1) for n, t in times.items()},
        "tokens_per_cpu_s": {n: round(tokens / statistics.median(t["cpu"]), 1) for n, t in times.items()},
        "embedded_over": {n: _ratio(t["wall"], times[EMBEDDED]["wall"]) for n, t in times.items() if n != EMBEDDED},
        "embedded_over_cpu": {n: _ratio(t["cpu"], times[EMBEDDED]["cpu"]) for n, t in times.items() if n != EMBEDDED},
    }


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return round(statistics.median(t / o for t, o in zip(theirs, ours)), 3)


def endless(folder: str) -> Any:
    """The model without an end token of its own: `generate` takes up the model's where the caller names none."""
    model = load_causal_lm(folder)
    model.generation_config = GenerationConfig()
    return model


def compare(folder: str, *, num_requests: int, new: int, prompt: int, rounds: int) -> dict[str, Any]:
    model = endless(folder)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    prompts = np.random.default_rng(0).integers(0, vocabulary, (num_requests, prompt))
    contestants = {
        EMBEDDED: embedded(folder, prompts, new),
        "embedded_module": embedded(folder, prompts, new, fast_forward=False),
        "embedded_deterministic": embedded(folder, prompts, new, deterministic=True),
        "generate": generate(model, prompts, new),
        "generate_static": generate(model, prompts, new, cache_implementation="static", disable_compile=True),
        "continuous_batching": continuous_batching(endless(folder), prompts, new),
    }
    tokens = num_requests * new
    shape = {"requests": num_requests, "prompt_tokens": prompt, "new_tokens": new, "rounds": rounds}
    return {**shape, **summary(race(contestants, rounds, tokens), tokens)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, help="where the figures go")
    parser.add_argument("--model", help="model folder; the bundled one by default")
    parser.add_argument("--smollm2", help="folder of a SmolLM2-135M, to be compared too")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    bundled = options.model or str(resources.files("headrace") / "assets" / "base-arithmetic")
    models = {"bundled": compare(bundled, num_requests=64, new=64, prompt=12, rounds=options.rounds)}
    if options.smollm2:
        models["smollm2"] = compare(options.smollm2, num_requests=16, new=16, prompt=24, rounds=min(3, options.rounds))
    report = {"threads": 1, "torch": torch.__version__, "transformers": transformers.__version__, "models": models}
    with open(options.json, "w") as file:
        json.dump(report, file, indent=2)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
