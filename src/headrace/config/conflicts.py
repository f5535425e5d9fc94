"""Keys that have no effect in a recipe, and keys that fight each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.config.algorithm_conflicts import algorithm_fights, inert_algorithm, updates_per_step
from headrace.config.sections import Recipe


@dataclass(frozen=True, slots=True)
class Inert:
    """``key`` has no effect because of what ``causes`` say."""

    key: str
    causes: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"'{self.key}' has no effect: {self.why}"


def inert_keys(recipe: Recipe) -> list[Inert]:
    """Every key without effect, written or not."""
    rules = (_inert_task, _inert_async, _inert_cadence, _inert_part)
    return [inert for rule in rules for inert in rule(recipe)]


def fights(recipe: Recipe) -> list[str]:
    """One sentence for each pair of keys that contradict each other, naming both and what is allowed."""
    rules: tuple[Callable[[Recipe], list[str]], ...] = (
        algorithm_fights,
        _batch_shape,
        _schedules,
        _reuse,
        _waits,
        _task,
        _code,
        _math,
    )
    return [sentence for rule in rules for sentence in rule(recipe)]


def total_updates(recipe: Recipe) -> int:
    """Optimiser updates of the whole run."""
    return recipe.run.steps * updates_per_step(recipe)


def _inert_task(recipe: Recipe) -> list[Inert]:
    name = recipe.task.name
    inert = []
    if name != "file":
        why = f"task.name is '{name}', which makes its own rows (only task 'file' reads files and columns)"
        inert = [Inert(f"task.{key}", ("task.name",), why) for key in _FILE_KEYS]
    if not name.startswith("reasoning_gym/"):
        why = f"task.name is '{name}', which takes no parameters (only reasoning_gym generators do)"
        inert.append(Inert("task.params", ("task.name",), why))
    return inert


_FILE_KEYS = ("path", "eval_path", "prompt_column", "answer_column")


def _inert_async(recipe: Recipe) -> list[Inert]:
    if recipe.async_.max_lag:
        return []
    why = "async.max_lag is 0, so the batch of a step is finished before the next one is admitted: there is no queue"
    return [Inert("async.max_ready_batches", ("async.max_lag",), why)]


def _inert_part(recipe: Recipe) -> list[Inert]:
    inert = [Inert(key, causes, why) for key, causes, why in inert_algorithm(recipe)]
    for section in ("sampling.schedule", "async.schedule"):
        part = (recipe.sampling if section.startswith("sampling") else recipe.async_).schedule
        if part is not None and part.shape == "linear":
            why = f"{section}.shape is 'linear', over the whole run"
            inert.append(Inert(f"{section}.final_frac", (f"{section}.shape",), why))
    return inert


def _inert_cadence(recipe: Recipe) -> list[Inert]:
    inert = []
    for section in ("eval", "checkpoint"):
        every = getattr(recipe, section).every_steps
        if every > recipe.run.steps:
            why = f"{every} steps never pass, run.steps is {recipe.run.steps}"
            inert.append(Inert(f"{section}.every_steps", ("run.steps",), why))
    return inert


def _batch_shape(recipe: Recipe) -> list[str]:
    batch, sentences = recipe.batch, []
    if batch.num_minibatches > batch.groups_per_step:
        sentences.append(
            f"batch.num_minibatches {batch.num_minibatches} fights batch.groups_per_step {batch.groups_per_step}: a "
            f"group is never split across updates; allowed: num_minibatches <= {batch.groups_per_step}."
        )
    longest = recipe.sampling.max_completion_tokens
    if batch.micro_batch_tokens <= longest:
        sentences.append(
            f"batch.micro_batch_tokens {batch.micro_batch_tokens} fights sampling.max_completion_tokens {longest}: a "
            f"rollout (prompt and completion) lies in one micro-batch, whole; allowed: micro_batch_tokens > {longest} "
            "+ the longest prompt."
        )
    return sentences


def _reuse(recipe: Recipe) -> list[str]:
    if recipe.async_.max_uses == 1 or recipe.async_.max_lag >= recipe.async_.max_uses - 1:
        return []
    uses, lag = recipe.async_.max_uses, recipe.async_.max_lag
    return [
        f"async.max_uses {uses} fights async.max_lag {lag}: every further use is a step later; allowed: max_uses <= "
        f"{lag + 1}, or max_lag >= {uses - 1}."
    ]


def _schedules(recipe: Recipe) -> list[str]:
    falling = recipe.async_.schedule
    sentences = _warmup(recipe)
    if falling is not None and falling.end >= recipe.async_.max_lag:
        sentences.append(
            f"async.schedule.end {falling.end} fights async.max_lag {recipe.async_.max_lag}: the bound may only fall; "
            f"allowed: end < {recipe.async_.max_lag}."
        )
    return sentences


def _warmup(recipe: Recipe) -> list[str]:
    warmup, total = recipe.optimizer.warmup, total_updates(recipe)
    if isinstance(warmup, int) and warmup > total:
        return [
            f"optimizer.warmup {warmup} fights run.steps {recipe.run.steps}: the run makes {total} updates and would "
            f"end before the learning rate is reached; allowed: warmup <= {total}, or a fraction such as 0.01."
        ]
    return []


def _waits(recipe: Recipe) -> list[str]:
    limit, timeout = recipe.reward.time_limit_s, recipe.run.timeout_s
    if 2 * limit >= timeout:
        return [
            f"reward.time_limit_s {limit:g} fights run.timeout_s {timeout:g}: a verification may take its limit twice "
            "(it is retried once), and the run would be ended for waiting; allowed: time_limit_s < timeout_s / 2."
        ]
    return []


def _task(recipe: Recipe) -> list[str]:
    task, sentences = recipe.task, []
    if task.name == "file" and task.path is None:
        sentences.append("task.name 'file' needs task.path; found nothing; allowed: a JSONL or Parquet file.")
    if task.name == "file" and recipe.reward.verifier == "task":
        sentences.append(
            "task.name 'file' needs reward.verifier: rows of a file have no verifier of their own; allowed: 'exact', "
            "'number', 'math', 'code', or your function as 'file.py:name'."
        )
    return sentences


def _math(recipe: Recipe) -> list[str]:
    if recipe.reward.math is None or recipe.reward.verifier in ("math", "number", "exact"):
        return []
    return [
        f"reward.math fights reward.verifier '{recipe.reward.verifier}', which does not read it; allowed: "
        "reward.verifier 'math', 'number' or 'exact', or no reward.math."
    ]


def _code(recipe: Recipe) -> list[str]:
    reward = recipe.reward
    if reward.code is None:
        return []
    if reward.verifier != "code":
        return [
            f"reward.code fights reward.verifier '{reward.verifier}', which runs no programs; allowed: reward.verifier "
            "'code', or no reward.code."
        ]
    if reward.code.time_limit_s > reward.time_limit_s:
        return [
            f"reward.code.time_limit_s {reward.code.time_limit_s:g} fights reward.time_limit_s "
            f"{reward.time_limit_s:g}, which is for all tests of a program together; allowed: one test's limit <= that "
            "of all."
        ]
    return []
