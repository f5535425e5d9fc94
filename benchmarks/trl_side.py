"""TRL's side of ``vs_trl.py``: one GRPO run of TRL on the bundled arithmetic task, timed step by step.

Runs in an environment of its own (``make venv-trl``) with Headrace's source folder on ``PYTHONPATH``: problems and
verifier are Headrace's own code, so prompts, their order and rewards are those of the other side. Writes one JSON line
a step, and before them one line that says what ran.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from headrace.tasks.arithmetic import ANSWER_MARKER, ArithmeticSource
from headrace.verifiers.number import NumberVerifier


class Judge:
    """TRL reward function around the task's verifier; keeps the figures of the newest batch."""

    __name__ = "judge"

    def __init__(self) -> None:
        self._verifier = NumberVerifier(marker=ANSWER_MARKER)
        self.pass_rate = 0.0
        self.num_rows = 0
        self.num_tokens = 0

    def __call__(
        self, completions: list[str], completion_ids: list[list[int]], answer: list[str], **_: Any
    ) -> list[float]:
        verdicts = [self._verifier(text, {"answer": gold}) for text, gold in zip(completions, answer, strict=True)]
        self.num_rows = len(verdicts)
        self.num_tokens = sum(len(ids) for ids in completion_ids)
        self.pass_rate = sum(v.passed for v in verdicts) / len(verdicts)
        return [float(v.reward or 0.0) for v in verdicts]


class StepClock(TrainerCallback):
    """Writes a line after every step and ends the run when the target is reached."""

    def __init__(self, judge: Judge, out: Any, *, target: float | None, window: int) -> None:
        self._judge, self._out, self._target = judge, out, target
        self._recent: deque[float] = deque(maxlen=window)
        self._started = self._cpu_started = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._started, self._cpu_started = time.perf_counter(), time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        judge = self._judge
        row = {
            "step": state.global_step,
            "time_s": time.perf_counter() - self._started,
            "cpu_s": time.process_time() - self._cpu_started,
            "pass_rate": judge.pass_rate,
            "num_rows": judge.num_rows,
            "num_completion_tokens": judge.num_tokens,
        }
        print(json.dumps(row), file=self._out, flush=True)
        self._recent.append(judge.pass_rate)
        full = len(self._recent) == self._recent.maxlen
        if self._target is not None and full and sum(self._recent) / len(self._recent) >= self._target:
            control.should_training_stop = True


def make_config(options: argparse.Namespace) -> GRPOConfig:
    """The recipe's settings in TRL's words; everything that only costs time is off."""
    accumulation = options.groups_per_step * options.group_size // options.per_device_batch
    return GRPOConfig(
        output_dir=options.work,
        use_cpu=True,
        bf16=False,
        seed=options.seed,
        max_steps=options.steps,
        per_device_train_batch_size=options.per_device_batch,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation,
        num_generations=options.group_size,
        num_iterations=1,
        shuffle_dataset=False,
        max_completion_length=options.max_completion_tokens,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        cache_implementation=options.cache,
        loss_type="cispo",
        epsilon_high=options.ratio_max,
        beta=0.0,
        scale_rewards="group",
        learning_rate=options.lr,
        lr_scheduler_type="constant",
        warmup_steps=0,
        optim="adamw_torch_fused",
        adam_beta1=options.beta1,
        adam_beta2=options.beta2,
        adam_epsilon=options.eps,
        weight_decay=0.0,
        max_grad_norm=options.max_grad_norm,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def make_dataset(options: argparse.Namespace) -> Dataset:
    """The rows of all steps in the order in which Headrace takes them."""
    source = ArithmeticSource("train", options.seed)
    rows = [source[i] for i in range(options.steps * options.groups_per_step)]
    return Dataset.from_list([{"prompt": row["prompt"], "answer": row["answer"]} for row in rows])


def make_model(options: argparse.Namespace) -> tuple[Any, Any]:
    """Model and tokenizer, warmed by one short completion (the other side's first evaluation does the same)."""
    extra = {"attn_implementation": options.attention} if options.attention else {}
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32, **extra)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    prompt = tokenizer(["12+34="], return_tensors="pt")
    with torch.no_grad():
        model.generate(**prompt, max_new_tokens=8)
    return model, tokenizer


def header(options: argparse.Namespace) -> dict[str, Any]:
    """What ran, for the record."""
    return {
        "trl": trl.__version__,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "threads": torch.get_num_threads(),
        "per_device_batch": options.per_device_batch,
        "cache": options.cache or "dynamic",
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One TRL GRPO run, timed step by step.")
    parser.add_argument("--model", required=True, help="Hugging Face model folder")
    parser.add_argument("--out", required=True, help="JSONL file to write")
    parser.add_argument("--work", required=True, help="folder TRL may write into")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", type=float, help="stop when the moving mean of the pass rate reaches this")
    parser.add_argument("--window", type=int, default=3, help="steps of that moving mean")
    parser.add_argument("--groups-per-step", type=int, default=32)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-completion-tokens", type=int, default=64)
    parser.add_argument("--per-device-batch", type=int, default=256, help="rows of one forward and backward pass")
    parser.add_argument("--cache", help="generate's cache implementation, such as 'static' (default: dynamic)")
    parser.add_argument("--attention", help="attention implementation (default: the model's)")
    parser.add_argument("--ratio-max", type=float, default=5.0)
    parser.add_argument("--beta1", type=float, default=0.9)
    parser.add_argument("--beta2", type=float, default=0.95)
    parser.add_argument("--eps", type=float, default=1e-8)
    parser.add_argument("--max-grad-norm", type=float, default=1.0)
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    os.makedirs(options.work, exist_ok=True)
    model, tokenizer = make_model(options)
    judge = Judge()
    with Path(options.out).open("w", encoding="utf-8") as out:
        print(json.dumps(header(options)), file=out, flush=True)
        GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=judge,
            args=make_config(options),
            train_dataset=make_dataset(options),
            callbacks=[StepClock(judge, out, target=options.target, window=options.window)],
        ).train()


if __name__ == "__main__":
    main()
