"""Training and held-out prompts of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.config.sections import Recipe
from headrace.errors import ConfigError, DataError
from headrace.protocols import PromptSource
from headrace.tasks.arithmetic import ArithmeticSource
from headrace.tasks.files import Columns, read_table
from headrace.tasks.prompts import PromptEncoder, prompt_id
from headrace.tasks.source import RowSource
from headrace.tasks.table import Table
from headrace.tasks.text import TextCodec

HELD_OUT_SEED = 0
"""Held-out rows are the same for every ``run.seed``, so that pass rates of different runs compare."""

_PROBED = 256  # rows of an endless stream whose length is looked at before the run


@dataclass(frozen=True, slots=True)
class TaskData:
    """Both sources; the tables behind them (empty of rows for the endless bundled stream)."""

    train: RowSource
    held_out: RowSource
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = field(default=())


def make_sources(recipe: Recipe, codec: TextCodec, context_length: int) -> tuple[PromptSource, PromptSource]:
    """(training prompts, held-out prompts); the held-out source is no longer than ``eval.num_prompts``.

    Raises ``ConfigError`` or ``DataError`` for data that cannot be used; see ``load_task``.
    """
    data = load_task(recipe, codec, context_length)
    return data.train, data.held_out


def load_task(recipe: Recipe, codec: TextCodec, context_length: int) -> TaskData:
    """Read or generate all rows, measure every prompt as it will be sampled from, and split off the held-out rows.

    A prompt is too long when it and ``max_completion_tokens`` exceed ``context_length`` (tokens); that, a malformed row
    and a missing answer are a ``DataError`` naming the row, or dropped and counted, as ``task.bad_rows`` says.
    """
    longest = recipe.sampling.max_completion_tokens
    if longest >= context_length:
        raise ConfigError(
            f"sampling.max_completion_tokens {longest} does not fit the model '{recipe.model.path}': its context is "
            f"{context_length} tokens, prompt included; allowed: less than {context_length}."
        )
    kind = recipe.task.name
    if kind == "file":
        return _from_files(recipe, codec, context_length - longest)
    encoder = PromptEncoder(codec, chat=recipe.task.chat)
    if kind == "arithmetic":
        return _from_arithmetic(recipe, encoder, context_length - longest)
    return _from_generator(recipe, encoder, context_length - longest)


def fitting(table: Table, encoder: PromptEncoder, limit: int) -> Table:
    """The rows whose prompts have at most ``limit`` tokens; the others are refused as the table says."""
    lengths = encoder.lengths(table.rows)
    why = [
        f"the prompt has {n} tokens as the model reads it (template included); the context leaves {limit} beside "
        "sampling.max_completion_tokens."
        for n in lengths
    ]
    return table.keep([n <= limit for n in lengths], why).require_rows()


def _from_arithmetic(recipe: Recipe, encoder: PromptEncoder, limit: int) -> TaskData:
    train = _Endless(ArithmeticSource("train", recipe.run.seed))
    held = ArithmeticSource("held_out", HELD_OUT_SEED)
    held_rows: list[dict[str, Any]] = [dict(held[i]) for i in range(recipe.eval.num_prompts)]
    probed = [train[i] for i in range(_PROBED)] + held_rows
    fitting(Table("task 'arithmetic'", rows=probed, numbers=list(range(1, len(probed) + 1))), encoder, limit)
    return TaskData(
        RowSource(train, encoder, name="arithmetic", shuffle=False),
        RowSource(held_rows, encoder, name="arithmetic", shuffle=False),
    )


def _from_generator(recipe: Recipe, encoder: PromptEncoder, limit: int) -> TaskData:
    from headrace.tasks.reasoning_gym import make_rows

    name = recipe.task.name.partition("/")[2]
    sides = make_rows(name, recipe.task.params, num_held_out=recipe.eval.num_prompts, seed=recipe.run.seed)
    tables = [
        fitting(Table(f"task '{recipe.task.name}' ({side})", recipe.task.bad_rows, rows, _count(rows)), encoder, limit)
        for side, rows in zip(("training", "held out"), sides, strict=True)
    ]
    train, held_out = (RowSource(t.rows, encoder, name=recipe.task.name, seed=recipe.run.seed) for t in tables)
    return TaskData(train, held_out, tuple(tables))


def _from_files(recipe: Recipe, codec: TextCodec, limit: int) -> TaskData:
    task = recipe.task
    if task.path is None:
        raise ConfigError("task.name 'file' needs task.path; found nothing; allowed: a JSONL or Parquet file.")
    columns = Columns(task.prompt_column, task.answer_column, answer_needed=":" not in recipe.reward.verifier)
    encoder = PromptEncoder(codec, task.prompt_column, task.chat)
    tables = [fitting(read_table(task.path, columns, task.bad_rows), encoder, limit)]
    if task.eval_path is not None:
        tables.append(fitting(read_table(task.eval_path, columns, task.bad_rows), encoder, limit))
        train_rows, held_rows = tables[0].rows, tables[1].rows
    else:
        train_rows, held_rows = _hold_out(tables[0], task.prompt_column, task.answer_column)
    options = {"name": "file", "answer_column": task.answer_column}
    held_rows, notes = _first(held_rows, recipe, encoder, options)
    return TaskData(
        RowSource(train_rows, encoder, seed=recipe.run.seed, **options),  # type: ignore[arg-type]
        RowSource(held_rows, encoder, shuffle=False, **options),  # type: ignore[arg-type]
        tuple(tables),
        notes,
    )


def _first(
    rows: list[dict[str, Any]], recipe: Recipe, encoder: PromptEncoder, options: dict[str, str]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """``eval.num_prompts`` held-out rows drawn from all parts of their file (which may be sorted)."""
    order = RowSource(rows, encoder, seed=HELD_OUT_SEED, **options)  # type: ignore[arg-type]
    wanted = recipe.eval.num_prompts
    note = f"eval.num_prompts is {wanted}, the held-out rows are {len(rows)}: all of them are evaluated."
    chosen = [dict(order.row(order.index(place))) for place in range(min(wanted, len(rows)))]
    return chosen, (note,) if wanted > len(rows) else ()


def _hold_out(
    table: Table, prompt_column: str, answer_column: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(rest, a tenth), cut by problem: equal rows stay on one side. The cut does not depend on the run's seed."""
    ids = [prompt_id(row[prompt_column], row.get(answer_column)) for row in table.rows]
    problems = sorted(set(ids))
    if len(problems) < 2:
        raise DataError(
            f"{table.source}: there is {len(problems)} problem, and a part must be held out for evaluation; at least "
            "two are needed, or held-out rows in task.eval_path."
        )
    held = set(problems[: max(1, len(problems) // 10)])
    rest = [row for row, name in zip(table.rows, ids, strict=True) if name not in held]
    return rest, [row for row, name in zip(table.rows, ids, strict=True) if name in held]


def _count(rows: list[Any]) -> list[int]:
    return list(range(1, len(rows) + 1))


@dataclass(frozen=True, slots=True)
class _Endless:
    """A stream that is a pure function of the row number, seen as one pass that no run finishes."""

    stream: ArithmeticSource

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(self.stream[index])
