"""``headrace explain RECIPE``: the batch arithmetic, the lag bound and the places of a recipe, in sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from headrace.cli.explain_algorithm import algorithm_sentences
from headrace.config.algorithm_conflicts import updates_per_step
from headrace.config.conflicts import total_updates
from headrace.config.load import LoadedRecipe, load
from headrace.config.sections import Recipe
from headrace.curation.schedules import first_final_step
from headrace.models.locate import ModelFiles, resolve_model


def run_explain(recipe_name: str, overrides: Sequence[str] = ()) -> int:
    """Print the sentences."""
    loaded = load(recipe_name, overrides)
    files = local_model(loaded.recipe)
    print(f"Recipe '{loaded.name}' ({loaded.source})\n")
    for paragraph in sentences(loaded, files):
        print(textwrap.fill(paragraph, width=100, break_long_words=False, break_on_hyphens=False), end="\n\n")
    return 0


def local_model(recipe: Recipe) -> ModelFiles | None:
    """Figures of the model when it lies on this machine; None when it had to be fetched or converted first."""
    path = recipe.model.path
    return resolve_model(path) if path == "bundled" or Path(path).is_dir() else None


def sentences(loaded: LoadedRecipe, files: ModelFiles | None = None) -> list[str]:
    """One paragraph for each part of the recipe; the last one names inherited keys without effect, if any."""
    recipe = loaded.recipe
    parts = [
        _step(recipe),
        _run(recipe),
        _updates(recipe),
        _lag(recipe),
        _task(recipe),
        algorithm_sentences(recipe),
        _evaluation(recipe),
        _places(recipe, files),
    ]
    notes = [f"Note: {note} (it was inherited and is left out)." for note in loaded.notes]
    return parts + notes


def _step(recipe: Recipe) -> str:
    batch, limit = recipe.batch, recipe.sampling.max_completion_tokens
    completions = batch.groups_per_step * batch.group_size
    return (
        f"A step takes {_many(batch.groups_per_step, 'prompt')}, one group each, and samples "
        f"{_many(batch.group_size, 'completion')} per prompt at temperature {_temperature(recipe)}: "
        f"{_many(completions, 'completion')} of at most {_many(limit, 'token')}, so at most "
        f"{_many(completions * limit, 'sampled token')} a step."
    )


def _temperature(recipe: Recipe) -> str:
    start, part = f"{recipe.sampling.temperature:g}", recipe.sampling.schedule
    if part is None:
        return start
    course = _course(recipe, part.end, part.shape, part.final_frac)
    return f"{start}, {course} (a group keeps the temperature it began with)"


def _course(recipe: Recipe, end: float, shape: str, final_frac: float) -> str:
    """How a value moves to its end, with the first step that has it."""
    if shape == "linear":
        return f"evenly to {end:g} at the last step"
    return f"{end:g} from step {first_final_step(recipe.run.steps, final_frac) + 1} on"


def _run(recipe: Recipe) -> str:
    steps, batch = recipe.run.steps, recipe.batch
    prompts = steps * batch.groups_per_step
    completions = prompts * batch.group_size
    return (
        f"The run has {_many(steps, 'step')} and publishes as many versions of the weights (1 to {steps:,}; version 0 "
        f"is the base model): {_many(prompts, 'prompt')}, {_many(completions, 'completion')} and at most "
        f"{_many(completions * recipe.sampling.max_completion_tokens, 'sampled token')} in all."
    )


def _updates(recipe: Recipe) -> str:
    batch, optimizer = recipe.batch, recipe.optimizer
    per_step, total = updates_per_step(recipe), total_updates(recipe)
    groups = batch.groups_per_step / batch.num_minibatches
    warmup = optimizer.warmup if isinstance(optimizer.warmup, int) else round(optimizer.warmup * total)
    ramp = f"rises over the first {_many(warmup, 'update')} and then stays" if warmup else "is constant"
    return (
        f"Each step makes {_many(per_step, 'optimiser update')} ({_many(batch.num_epochs, 'pass', 'passes')} over the "
        f"batch in {_many(batch.num_minibatches, 'mini-batch', 'mini-batches')}, about {groups:g} groups = "
        f"{groups * batch.group_size:g} completions an update), {_many(total, 'update')} in all; the learning rate "
        f"{optimizer.lr:g} {ramp}. An update is computed in micro-batches of at most "
        f"{_many(batch.micro_batch_tokens, 'token')}, which cannot change it."
    )


def _lag(recipe: Recipe) -> str:
    bound = recipe.async_.max_lag
    if bound == 0:
        return (
            "async.max_lag is 0: the synchronous mode. The batch of a step is sampled entirely from the weights that "
            "the step starts from, and the trainer waits for it."
        )
    at_bound = {
        "wait": "the trainer waits for a group that would exceed it; nothing is thrown away",
        "drop": "a group that would exceed it is dropped whole, and counted",
    }
    part = recipe.async_.schedule
    falls = f": {bound}, {_course(recipe, part.end, part.shape, part.final_frac)}" if part else ""
    most = (bound + 1) * recipe.batch.groups_per_step
    return (
        f"Sampling and training overlap. No token is trained more than {_many(bound, 'step')} after the version that "
        f"sampled it (async.max_lag{falls}), so at most {_many(most, 'group')} are under way at a time; at the bound, "
        f"{at_bound[recipe.async_.at_bound]}. Sampling pauses while "
        f"{_many(recipe.async_.max_ready_batches, 'finished batch', 'finished batches')} "
        f"wait{'s' if recipe.async_.max_ready_batches == 1 else ''} for the trainer."
    )


def _task(recipe: Recipe) -> str:
    task, reward = recipe.task, recipe.reward
    where = {"arithmetic": "the bundled arithmetic problems", "file": f"the rows of {task.path}"}
    prompts = where.get(task.name, f"problems that {task.name} makes")
    judge = "the task's own verifier" if reward.verifier == "task" else f"the verifier '{reward.verifier}'"
    return (
        f"Prompts are {prompts}{', wrapped in the chat template' if task.chat else ''}; {judge} judges each completion "
        f"in {_many(reward.num_workers, 'process', 'processes')} with a limit of {reward.time_limit_s:g} s."
    )


def _evaluation(recipe: Recipe) -> str:
    section, steps = recipe.eval, recipe.run.steps
    each = section.num_prompts * section.samples_per_prompt
    times = ["before and after the run"]
    times += [f"every {_many(section.every_steps, 'step')}"] if section.every_steps else []
    times += [f"every {section.every_minutes:g} minutes"] if section.every_minutes else []
    planned = 2 + ((steps - 1) // section.every_steps if section.every_steps else 0)
    trained = steps * recipe.batch.groups_per_step * recipe.batch.group_size
    held_out = {
        "arithmetic": "The held-out tenth of all problems is never trained on",
        "file": "Held-out rows come from task.eval_path"
        if recipe.task.eval_path
        else "A fixed tenth of the rows is held out",
    }.get(recipe.task.name, "Held-out problems are taken out of training")
    return (
        f"{held_out}. An evaluation samples {_many(section.num_prompts, 'held-out prompt')} x "
        f"{_many(section.samples_per_prompt, 'completion')} = {each:,} at temperature {section.temperature:g}, "
        f"{_join(times)}: {_many(planned, 'evaluation')} counted by steps, "
        f"{planned * each / (planned * each + trained):.0%} of all completions that the run samples."
    )


def _places(recipe: Recipe, files: ModelFiles | None) -> str:
    generator, trainer, model = recipe.generator, recipe.trainer, recipe.model
    size = (
        f" ({_size(files.num_parameters_estimate)} parameters, context {files.context_length:,} tokens)"
        if files
        else ""
    )
    return (
        f"The policy is {model.path}{size}, published in {model.dtype}. The trainer runs on {trainer.device} with "
        f"{_many(trainer.threads, 'thread')}; {_many(generator.num_generators, 'generator')} of "
        f"{_many(generator.num_slots, 'slot')} on {generator.device} with {_many(generator.threads, 'thread')} each; "
        f"the controller and {_many(recipe.reward.num_workers, 'verifier process', 'verifier processes')} take one CPU "
        "thread each and little of it."
    )


def _many(number: int, one: str, more: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _size(number: int) -> str:
    for unit, value in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= value:
            return f"{number / value:.3g}{unit}"
    return str(number)
