"""The two sides of ``vs_trl.py``: start one run, watch it to its end or its target, return what every step took.

Each side is started as its user would: ``headrace train``, and a script around TRL's ``GRPOTrainer``. Seconds count
from the first sampling on; start-up and model loading are outside on both sides.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from headrace.config.load import load_recipe
from headrace.config.losses import CISPO
from headrace.config.sections import Recipe
from headrace.models.locate import resolve_model
from headrace.tracking.rollout_store import read_rollouts

REPOSITORY = Path(__file__).resolve().parent.parent
POLL_S = 0.25
TAIL_LINES = 15  # of a failed run's log, shown in the error


@dataclass(frozen=True, slots=True)
class Step:
    """One training step: when it ended, and what was trained in it."""

    step: int
    time_s: float
    pass_rate: float
    num_rows: int
    num_completion_tokens: float


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What both sides are asked to do. ``target`` None: all steps."""

    lr: float
    seed: int
    steps: int
    target: float | None = None
    window: int = 3


@dataclass(frozen=True, slots=True)
class Curve:
    """The steps of one run."""

    side: str
    spec: RunSpec
    steps: tuple[Step, ...]
    versions: dict[str, Any]

    def time_to(self, target: float, window: int) -> tuple[float, int] | None:
        """Seconds and steps to the first moving mean of ``window`` pass rates that reaches ``target``."""
        rates = [s.pass_rate for s in self.steps]
        for end in range(window, len(rates) + 1):
            if sum(rates[end - window : end]) / window >= target:
                return self.steps[end - 1].time_s, self.steps[end - 1].step
        return None

    def between(self, first: int, last: int) -> dict[str, float]:
        """Rows, tokens and seconds of the steps ``first`` + 1 to ``last``."""
        by_number = {s.step: s for s in self.steps}
        steps = [by_number[n] for n in range(first + 1, last + 1)]
        seconds = by_number[last].time_s - by_number[first].time_s
        rows = sum(s.num_rows for s in steps)
        return {
            "num_steps": len(steps),
            "num_rows": rows,
            "num_completion_tokens": sum(s.num_completion_tokens for s in steps),
            "seconds": seconds,
            "samples_per_s": rows / seconds,
            "median_step_s": median(by_number[n].time_s - by_number[n - 1].time_s for n in range(first + 1, last + 1)),
        }


class Side(Protocol):
    """One way of training the model."""

    name: str

    def run(self, spec: RunSpec) -> Curve: ...


def recipe_overrides(spec: RunSpec) -> list[str]:
    """What the comparison changes in the recipe: no warm-up, and nothing but training after the first evaluation."""
    return [
        f"run.steps={spec.steps}",
        f"run.seed={spec.seed}",
        f"optimizer.lr={spec.lr!r}",
        "optimizer.warmup=0",
        "eval.num_prompts=1",
        "eval.every_steps=0",
        "eval.every_minutes=0",
        "checkpoint.every_steps=0",
        "checkpoint.every_minutes=0",
        "generator.threads=1",
        "trainer.threads=1",
    ]


class HeadraceSide:
    """``headrace train`` of this environment: trainer and generator with one thread each."""

    name = "headrace"

    def __init__(self, recipe: str, work: Path, extra: Sequence[str] = ()) -> None:
        self._recipe, self._work, self._extra = recipe, work, list(extra)

    def run(self, spec: RunSpec) -> Curve:
        runs = _new_folder(self._work, self.name)
        command = [sys.executable, "-m", "headrace.cli.main", "train", self._recipe, "--runs", str(runs)]
        overrides = [*self._extra, *recipe_overrides(spec)]
        with (runs / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen([*command, *overrides], stdout=log, stderr=log, cwd=self._work)
            try:
                stopped = self._watch(process, runs, spec)
            finally:
                _end(process)
        if process.returncode != 0 and not stopped:
            raise SystemExit(f"headrace train ended with {process.returncode}:\n{_tail(runs / 'log')}")
        return Curve(self.name, spec, tuple(_headrace_steps(_run_folder(runs))), {})

    def _watch(self, process: subprocess.Popen[bytes], runs: Path, spec: RunSpec) -> bool:
        """Wait for the end; press Ctrl-C when the target is reached. True when that was done."""
        while process.poll() is None:
            time.sleep(POLL_S)
            if spec.target is None or not (folder := _run_folder(runs)):
                continue
            rates = [row["metrics"].get("reward/pass_rate", 0.0) for row in _json_lines(folder / "metrics.jsonl")]
            if _reached(rates, spec.target, spec.window):
                process.send_signal(signal.SIGINT)
                process.wait(timeout=60)
                return True
        return False


class TRLSide:
    """TRL's ``GRPOTrainer`` in its own environment, on all cores of the comparison."""

    name = "trl"

    def __init__(
        self,
        python: Path,
        recipe: str,
        work: Path,
        extra: Sequence[str] = (),
        *,
        threads: int = 1,
        options: Sequence[str] = (),
    ) -> None:
        self._python, self._recipe, self._work, self._extra = python, recipe, work, list(extra)
        self._threads, self._options = threads, list(options)

    def run_in_way(self, threads: int, options: Sequence[str]) -> TRLSide:
        """The same side with other threads and options of ``trl_side.py``."""
        return TRLSide(self._python, self._recipe, self._work, self._extra, threads=threads, options=options)

    def run(self, spec: RunSpec) -> Curve:
        work = _new_folder(self._work, self.name)
        out = work / "steps.jsonl"
        recipe = load_recipe(self._recipe, [*self._extra, *recipe_overrides(spec)])
        command = [str(self._python), str(REPOSITORY / "benchmarks" / "trl_side.py")]
        command += ["--out", str(out), "--work", str(work), "--threads", str(self._threads)]
        command += [*trl_settings(recipe), *_target(spec), *self._options]
        environment = os.environ | {
            "PYTHONPATH": str(REPOSITORY / "src"),
            "OMP_NUM_THREADS": str(self._threads),
            "HF_HUB_OFFLINE": "1",
        }
        with (work / "log").open("w", encoding="utf-8") as log:
            done = subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=work)
        if done.returncode != 0:
            raise SystemExit(f"the TRL side ended with {done.returncode}:\n{_tail(work / 'log')}")
        versions, *rows = _json_lines(out)
        return Curve(self.name, spec, tuple(_trl_step(row) for row in rows), versions)


def trl_settings(recipe: Recipe) -> list[str]:
    """The recipe as options of ``trl_side.py``. Raises ``SystemExit`` for one that the TRL side cannot match."""
    algorithm, optimizer, loss = recipe.algorithm, recipe.optimizer, recipe.algorithm.loss
    matched = (
        isinstance(loss, CISPO)
        and (algorithm.advantage.mean, algorithm.advantage.scale) == ("group", "group")
        and (algorithm.loss_weight, algorithm.zero_variance) == ("token_mean", "keep")
        and (recipe.batch.num_minibatches, recipe.batch.num_epochs) == (1, 1)
        and (recipe.sampling.temperature, optimizer.weight_decay) == (1.0, 0.0)
        and recipe.task.name == "arithmetic"
    )
    if not matched or not isinstance(loss, CISPO):
        raise SystemExit("the TRL side is written for the arithmetic task with CISPO, group advantages, token mean")
    settings = {
        "model": resolve_model(recipe.model.path).folder,
        "seed": recipe.run.seed,
        "steps": recipe.run.steps,
        "lr": optimizer.lr,
        "groups-per-step": recipe.batch.groups_per_step,
        "group-size": recipe.batch.group_size,
        "max-completion-tokens": recipe.sampling.max_completion_tokens,
        "ratio-max": loss.ratio_max,
        "beta1": optimizer.betas[0],
        "beta2": optimizer.betas[1],
        "eps": optimizer.eps,
        "max-grad-norm": optimizer.max_grad_norm,
    }
    return [f"--{name}={value}" for name, value in settings.items()]


def cut_at_target(curve: Curve) -> Curve:
    """Without the steps a side still did after its target, before it could be stopped."""
    spec = curve.spec
    reached = curve.time_to(spec.target, spec.window) if spec.target is not None else None
    if reached is None:
        return curve
    return replace(curve, steps=tuple(s for s in curve.steps if s.step <= reached[1]))


def _headrace_steps(folder: Path | None) -> Iterable[Step]:
    """Steps of a run folder, timed from the end of the evaluation that precedes the first admission."""
    if folder is None:
        raise SystemExit("headrace train made no run folder")
    started = next(row["time_s"] for row in _json_lines(folder / "evals.jsonl") if row["version"] == 0)
    rows = _rows_by_step(folder)
    for line in _json_lines(folder / "metrics.jsonl"):
        number, tokens = rows.get(line["step"], (0, 0))
        yield Step(
            step=line["step"],
            time_s=line["time_s"] - started,
            pass_rate=line["metrics"]["reward/pass_rate"],
            num_rows=number,
            num_completion_tokens=tokens,
        )


def _rows_by_step(folder: Path) -> dict[int, tuple[int, int]]:
    """(completions trained, their tokens) of every step, counted in the stored rollouts."""
    counts: dict[int, tuple[int, int]] = {}
    for row in read_rollouts(folder, columns=["step", "dropped", "num_tokens"]).to_pylist():
        if not row["dropped"]:
            number, tokens = counts.get(row["step"], (0, 0))
            counts[row["step"]] = (number + 1, tokens + row["num_tokens"])
    return counts


def _trl_step(row: dict[str, Any]) -> Step:
    return Step(**{name: row[name] for name in ("step", "time_s", "pass_rate", "num_rows", "num_completion_tokens")})


def _new_folder(work: Path, name: str) -> Path:
    work.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=work))


def _target(spec: RunSpec) -> list[str]:
    return [] if spec.target is None else [f"--target={spec.target}", f"--window={spec.window}"]


def _reached(rates: list[float], target: float, window: int) -> bool:
    means = [sum(rates[i - window : i]) / window for i in range(window, len(rates) + 1)]
    return any(mean >= target for mean in means)


def _run_folder(runs: Path) -> Path | None:
    return next((p for p in sorted(runs.iterdir()) if (p / "recipe.yaml").is_file()), None)


def _json_lines(path: Path) -> list[Any]:
    """Complete lines of a file that may still be written to, or may not be there yet."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.wait(timeout=60)
