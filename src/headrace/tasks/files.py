"""JSONL and Parquet files as tables of plain rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import DataError
from headrace.tasks.table import BadRows, Table, answer_text, check_columns

SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that matter. Without ``answer_needed`` (a user's function judges) there may be no gold."""

    prompt: str = "prompt"
    answer: str = "answer"
    answer_needed: bool = True

    @property
    def needed(self) -> dict[str, str]:
        answer = {self.answer: "task.answer_column"} if self.answer_needed else {}
        return {self.prompt: "task.prompt_column", **answer}


def read_table(path: str | Path, columns: Columns | None = None, bad_rows: BadRows = "error") -> Table:
    """All usable rows of a file; answers become text, all columns are kept.

    Raises ``DataError`` for a file that is missing, empty or of another format, a column that no row has, and (unless
    ``bad_rows`` is 'drop') the first row that is malformed or lacks a prompt or answer.
    """
    file, columns = Path(path), columns or Columns()
    if not file.exists():
        folder = file.parent
        there = (
            ", ".join(sorted(f.name for f in folder.glob("*") if f.suffix in SUFFIXES)[:8]) if folder.is_dir() else ""
        )
        raise DataError(
            f"data file {file} does not exist; {f'beside it are: {there}' if there else 'check task.path'}."
        )
    if file.is_dir() or file.suffix not in SUFFIXES:
        raise DataError(f"data file {file}: allowed are files that end in {', '.join(SUFFIXES)}.")
    table = Table(str(file), bad_rows)
    found = _read_parquet(file, table) if SUFFIXES[file.suffix] == "parquet" else _read_jsonl(file, table)
    if not table.rows:
        return table.require_rows()
    check_columns(str(file), "", found, columns.needed)
    return _checked(table, columns)


def _checked(table: Table, columns: Columns) -> Table:
    checked = Table(table.source, table.bad_rows, dropped=table.dropped)
    for number, row in zip(table.numbers, table.rows, strict=True):
        if why := _fault(row, columns):
            checked.refuse(number, why)
            continue
        if row.get(columns.answer) is not None:
            row[columns.answer] = answer_text(row[columns.answer])
        if not isinstance(row[columns.prompt], str | list):
            row[columns.prompt] = answer_text(row[columns.prompt])
        checked.add(number, row)
    checked.dropped = dict(sorted(checked.dropped.items()))
    return checked.require_rows()


def _fault(row: dict[str, Any], columns: Columns) -> str:
    for column, key in columns.needed.items():
        if column not in row:
            return f"there is no '{column}' ({key}) in it; it has: {', '.join(row) or 'nothing'}."
        value = row[column]
        if value is None or (isinstance(value, str | list) and not value):
            return f"column '{column}' ({key}) is empty."
        if isinstance(value, str) and not value.strip():
            return f"column '{column}' ({key}) holds white space only."
    return ""


def _read_jsonl(file: Path, table: Table) -> list[str]:
    """Fill the table; return the columns of all rows. Lines end at line feeds alone: U+2028 may stand inside a text."""
    columns: dict[str, None] = {}
    for number, line in _lines(file):
        row, why = _parse(line, number)
        if row is None:
            table.refuse(number, why)
            continue
        columns.update(dict.fromkeys(row))
        table.add(number, row)
    return list(columns)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise DataError(f"data file {file} cannot be read: {error.strerror}.") from None


def _parse(line: bytes, number: int) -> tuple[dict[str, Any] | None, str]:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return None, f"not UTF-8 text (byte {error.start} of the line)."
    except (ValueError, RecursionError) as error:
        array = " The file looks like one JSON array; write one object a line." if line.strip() in (b"[", b"[{") else ""
        return None, f"not valid JSON: {error}; found {_excerpt(line)}.{array}"
    if isinstance(row, dict):
        return row, ""
    array = " (a file with one JSON array is not JSONL; write one object a line)" if isinstance(row, list) else ""
    return None, f"found a JSON {type(row).__name__}; a row is an object with named columns{array}."


def _excerpt(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _read_parquet(file: Path, table: Table) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    try:
        data = pyarrow.parquet.read_table(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"data file {file} is not a Parquet file: {str(error).splitlines()[0]}") from None
    for number, row in enumerate(data.to_pylist(), start=1):
        table.add(number, row)
    return list(data.column_names)
