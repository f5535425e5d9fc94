"""``headrace check RECIPE [--data]``: mistakes in a recipe and in its rows, found without torch and before any run."""

from __future__ import annotations

import contextlib
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.explain import local_model
from headrace.config.load import load
from headrace.config.sections import Recipe
from headrace.errors import DataError
from headrace.models.locate import ModelFiles, resolve_model

if TYPE_CHECKING:
    from headrace.tasks.build import TaskData
    from headrace.verifiers.self_check import SelfCheck

SAMPLED_GOLDS = 256
"""Gold answers tried before a run; ``check --data`` tries all of them."""

_LISTED = 8


@dataclass(frozen=True, slots=True)
class DataReport:
    """What was found in the rows: plain counts, and things that someone should look at."""

    counts: tuple[str, ...]
    warnings: tuple[str, ...]


def run_check(recipe_name: str, overrides: Sequence[str] = (), *, data: bool = False) -> int:
    """Check and print; mistakes are raised as ``ConfigError`` or ``DataError``."""
    loaded = load(recipe_name, overrides)
    recipe = loaded.recipe
    for path in (recipe.task.path, recipe.task.eval_path):
        if path is not None and not Path(path).is_file():
            raise DataError(f"data file {path} does not exist; check task.path and task.eval_path.")
    isolation = _isolation(recipe)
    files = local_model(recipe)
    print(f"recipe '{loaded.name}' is valid ({loaded.source}).")
    if isolation:
        print(f"{isolation}.")
    if files is None and not data:
        print(
            f"model '{recipe.model.path}' was not looked at (it may have to be fetched or converted; --data does that)."
        )
    for note in loaded.notes:
        print(f"note: {note} (inherited).")
    if data:
        report = inspect_data(recipe, files or resolve_model(recipe.model.path), num_golds=None)
        _print(report)
    return 0


def _isolation(recipe: Recipe) -> str:
    """How programs are shut in on this machine; '' when none are run. Raises ``ConfigError`` for one it lacks."""
    if recipe.reward.verifier != "code":
        return ""
    from headrace.verifiers.sandbox.levels import choose, describe

    return describe(choose(recipe.reward.code.isolation if recipe.reward.code else "best"))


def check_data(recipe: Recipe, files: ModelFiles, *, console: Any = None) -> None:
    """What ``train`` does first: read and measure all rows, try the verifier on a sample; print warnings only.

    Raises ``ConfigError`` or ``DataError`` naming the row.
    """
    report = inspect_data(recipe, files, num_golds=SAMPLED_GOLDS)
    for warning in report.warnings:
        if console is None:
            print(f"warning: {warning}")
        else:
            console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)


def inspect_data(recipe: Recipe, files: ModelFiles, *, num_golds: int | None) -> DataReport:
    """Load the task of a recipe and look at it; ``num_golds`` gold answers are verified (None: all)."""
    from headrace.tasks.build import load_task
    from headrace.tasks.interrupted import interruption_of
    from headrace.tasks.text import TextCodec

    codec = TextCodec(files.folder)
    interruption_of(recipe, codec)  # raises what is wrong with its texts and lengths
    data = load_task(recipe, codec, files.context_length)
    counts, warnings = _look(data, recipe)
    rows = _sample(data, num_golds)
    checked = _verify(recipe, rows)
    counts.append(f"verifier: {checked.num_rows:,} rows tried, {len(checked.failed):,} gold answers not accepted")
    warnings += _gold_warnings(recipe, rows, checked)
    warnings += _code_warnings(recipe, rows)
    return DataReport(tuple(counts), tuple(warnings))


def _look(data: TaskData, recipe: Recipe) -> tuple[list[str], list[str]]:
    from headrace.tasks.prompts import prompt_id

    endless = not data.tables
    train = "an endless stream" if endless else f"{len(data.train):,} rows"
    counts = [f"training: {train}", f"held out: {len(data.held_out):,} rows"]
    warnings = list(data.notes)
    for table in data.tables:
        if table.dropped:
            number, why = next(iter(table.dropped.items()))
            warnings.append(f"{table.source}: {len(table.dropped):,} rows dropped; the first, row {number}: {why}")
    if endless:
        return counts, warnings
    task = recipe.task
    ids = [
        Counter(prompt_id(row[task.prompt_column], row.get(task.answer_column)) for row in _rows(source))
        for source in (data.train, data.held_out)
    ]
    repeated = sum(n - 1 for n in ids[0].values())
    if repeated and task.name == "file":  # generators repeat themselves; that is their distribution
        warnings.append(f"{repeated:,} training rows repeat another one's prompt and answer.")
    if overlap := len(ids[0].keys() & ids[1].keys()):
        warnings.append(
            f"{overlap:,} held-out problems are training problems too: the evaluation will flatter the run."
        )
    return counts, warnings


def _rows(source: Any) -> list[Any]:
    return [source.row(i) for i in range(len(source))]


def _sample(data: TaskData, limit: int | None) -> list[Any]:
    """Training rows evenly from all parts; an endless stream gives its first ones."""
    size = len(data.train)
    if not data.tables:
        return [data.train.row(i) for i in range(min(size, limit or SAMPLED_GOLDS))]
    wanted = size if limit is None else min(size, limit)
    return [data.train.row(i * size // wanted) for i in range(wanted)]


def _verify(recipe: Recipe, rows: list[Any]) -> SelfCheck:
    from headrace.verifiers.self_check import run_self_check
    from headrace.verifiers.spec import spec_of

    reward = recipe.reward
    return run_self_check(spec_of(recipe), rows, num_workers=reward.num_workers, time_limit_s=reward.time_limit_s)


def _gold_warnings(recipe: Recipe, rows: list[Any], checked: SelfCheck) -> list[str]:
    """A warning about golds that their verifier refuses; an error when there are more than the run would bear."""
    if not checked.failed:
        return []
    column = recipe.task.answer_column
    listed = [f"{rows[i].get(column)!r:.60} ({why})" for i, why in list(checked.failed.items())[:_LISTED]]
    share = len(checked.failed) / checked.num_rows
    text = (
        f"{len(checked.failed):,} of {checked.num_rows:,} gold answers are not accepted by the verifier "
        f"'{recipe.reward.verifier}' itself: {'; '.join(listed)}"
    )
    if share > recipe.reward.max_error_frac:
        raise DataError(
            f"{text}. That is {share:.0%}, more than reward.max_error_frac {recipe.reward.max_error_frac:g} allows: "
            "choose another reward.verifier or mend the answers."
        )
    return [f"{text}; completions of these rows are left out of training and counted."]


def _code_warnings(recipe: Recipe, rows: list[Any]) -> list[str]:
    """Tests of programs that do not have the full guarantee."""
    if recipe.reward.verifier != "code":
        return []
    from headrace.verifiers.code_tests import TestsFault, read_case

    counts = []
    for row in rows:
        with contextlib.suppress(TestsFault):
            counts.append(read_case(row, recipe.task.answer_column).num_in_process)
    if not any(counts):
        return []
    return [
        f"{sum(counts):,} asserts of {sum(map(bool, counts)):,} rows cannot be rewritten as calls and run beside the "
        "program, which could cheat them."
    ]


def _print(report: DataReport) -> None:
    for line in report.counts:
        print(line)
    for warning in report.warnings:
        print(textwrap.fill(f"warning: {warning}", width=100))
    if not report.warnings:
        print("nothing to complain about.")
