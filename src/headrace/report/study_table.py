"""A study as a table in the terminal and in Markdown, its verdicts in sentences, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from headrace.report.glyphs import UNKNOWN, figure
from headrace.report.study import LEVEL, Difference, RunFigures, Spread, VariantRow
from headrace.tracking.jsonl import finite


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[VariantRow], str]
    optional: bool = False  # left out when no variant has it


_VARIANT = _Column("variant", lambda row: row.variant)
OUTCOME = (
    _Column("seeds", lambda row: str(len(row.seeds))),
    _Column("before", lambda row: _plus_minus(row.before, 3)),
    _Column("after", lambda row: _plus_minus(row.after, 3)),
    _Column("difference (se)", lambda row: _difference(row.difference)),
)
COST = (
    _Column("min..max", lambda row: _range(row.after)),
    _Column("entropy", lambda row: _plus_minus(row.entropy, 3)),
    _Column("train, s", lambda row: _plus_minus(row.train_s, 1)),
    _Column("samples/s", lambda row: _plus_minus(row.samples_per_s, 0)),
    _Column("lag", lambda row: UNKNOWN if row.max_lag is None else str(row.max_lag)),
    _Column("positive", lambda row: _plus_minus(row.positive_share, 3), optional=True),
)
WIDE = 140  # terminals from this width on get one table instead of two

NOTES = (
    "Before and after: held-out pass rate, mean ± standard deviation over seeds (ddof 1). Difference: after, minus the "
    "baseline's, paired by seed, with its standard error. Entropy: nats, last tenth of the steps. Lag: largest "
    "trained, steps.",
    f"A difference is covered by the spread when its {LEVEL:.0%} interval (Student's t) holds 0.",
)


def console_tables(rows: Sequence[VariantRow], baseline: str, *, width: int) -> list[Table]:
    """For a terminal of ``width`` columns: one table, or what came out and what it cost in two."""
    parts = [[*OUTCOME, *COST]] if width >= WIDE else [OUTCOME, COST]
    return [_console_table(rows, baseline, _shown([_VARIANT, *part], rows)) for part in parts]


def markdown(rows: Sequence[VariantRow], baseline: str, *, title: str, failures: Sequence[str] = ()) -> str:
    """``table.md``: the table, the verdicts, what failed, and how to read it."""
    columns = _shown([_VARIANT, *OUTCOME, *COST], rows)
    lines = [f"# {title}", "", _line([column.title for column in columns])]
    lines.append(_line(["---" if not number else "---:" for number in range(len(columns))]))
    lines += [_line([column.cell(row) for column in columns]) for row in rows]
    parts = [*verdicts(rows, baseline), *(f"Failed: {failure}" for failure in failures)]
    lines += ["", *(f"- {part}" for part in parts), *([""] if parts else []), *(f"{note}\n" for note in NOTES)]
    return "\n".join(lines).rstrip() + "\n"


def verdicts(rows: Sequence[VariantRow], baseline: str) -> list[str]:
    """One sentence for each variant that can be compared with the baseline."""
    said = [
        f"{row.variant} against {baseline}: {_interval(row.difference)}: {row.difference.in_words()}."
        for row in rows
        if row.difference is not None
    ]
    decided = sum(row.difference is not None and row.difference.covered is not None for row in rows)
    if decided > 1:
        said.append(
            f"{decided} differences are looked at, each at {LEVEL:.0%}: by chance alone about "
            f"{decided * (1 - LEVEL):.2g} of them would stand out."
        )
    return said


def to_json(rows: Sequence[VariantRow], runs: Sequence[RunFigures], baseline: str) -> dict[str, Any]:
    """What ``results.json`` holds besides the names of things: rows with verdicts, and the figures of every run."""
    content: Mapping[str, Any] = {
        "baseline": baseline,
        "level": LEVEL,
        "variants": [{**asdict(row), "verdict": row.difference.in_words() if row.difference else None} for row in rows],
        "runs": [asdict(run) for run in runs],
    }
    return dict(finite(content)[0])


def _shown(columns: Sequence[_Column], rows: Sequence[VariantRow]) -> list[_Column]:
    return [c for c in columns if not c.optional or any(c.cell(row) != UNKNOWN for row in rows)]


def _console_table(rows: Sequence[VariantRow], baseline: str, columns: Sequence[_Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(Text(column.title), justify="right" if number else "left", overflow="fold")
    for row in rows:
        cells = [Text(column.cell(row)) for column in columns]
        table.add_row(*cells, style="bold" if row.variant == baseline else None)
    return table


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _plus_minus(value: Spread | None, digits: int) -> str:
    if value is None:
        return UNKNOWN
    return figure(value.mean, digits) + ("" if value.sd is None else f" ± {figure(value.sd, digits)}")


def _range(value: Spread | None) -> str:
    return UNKNOWN if value is None or value.count < 2 else f"{figure(value.low, 3)}..{figure(value.high, 3)}"


def _difference(value: Difference | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value.mean:+.3f}" + ("" if value.standard_error is None else f" ({figure(value.standard_error, 3)})")


def _interval(difference: Difference) -> str:
    seeds = f"{len(difference.seeds)} seed{'s' if len(difference.seeds) > 1 else ''}"
    if difference.half_width is None:
        return f"{difference.mean:+.3f} ({seeds})"
    low, high = difference.mean - difference.half_width, difference.mean + difference.half_width
    return f"{difference.mean:+.3f} ({seeds}, {LEVEL:.0%} interval {low:+.3f} .. {high:+.3f})"
