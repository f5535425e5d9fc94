"""CSV, JSON lines, Parquet and exports of W&B as rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from headrace.errors import DataError


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV or TSV with a header line. A W&B export is a CSV: its minimum and maximum columns are left out and
    the prefix ``RUN - `` of a column is dropped when the file holds one run."""
    text = path.read_text(encoding="utf-8-sig")
    rows = list(csv.reader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
    rows = [row for row in rows if any(cell.strip() for cell in row) and not row[0].startswith("#")]
    if not rows:
        return []
    header = _without_run_names([cell.strip() for cell in rows[0]], path)
    wrong = next((i for i, row in enumerate(rows[1:], 2) if len(row) != len(header)), None)
    if wrong is not None:
        raise DataError(f"{path}: line {wrong} has {len(rows[wrong - 1])} fields, the header {len(header)}")
    return [{key: cell for key, cell in zip(header, row) if key} for row in rows[1:]]


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; nested mappings become ``outer/inner`` columns."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}: line {number} is not JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}: line {number} is no JSON object")
        rows.append(flat(row))
    return rows


def read_json(path: Path) -> list[dict[str, Any]]:
    """A list of rows, a mapping of columns, or the ``trainer_state.json`` of TRL and transformers (``log_history``)."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON (line {error.lineno}: {error.msg})") from None
    if isinstance(content, dict) and "log_history" in content:
        content = content["log_history"]
    if isinstance(content, dict) and all(isinstance(column, list) for column in content.values()):
        content = [dict(zip(content, values)) for values in zip(*content.values(), strict=False)]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path}: neither a list of rows nor a trainer_state.json with 'log_history'")
    return [flat(row) for row in content]


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """Rows of a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        return [flat(row) for row in pyarrow.parquet.read_table(path).to_pylist()]
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{path} is not a Parquet file ({error})") from None


def flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level, ``{"a": {"b": 1}}`` as ``{"a/b": 1}``; lists and texts stay as they are."""
    pairs: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        pairs |= flat(value, f"{name}/") if isinstance(value, dict) else {name: value}
    return pairs


def _without_run_names(header: list[str], path: Path) -> list[str]:
    """W&B names the columns of a chart ``RUN - METRIC``, ``RUN - METRIC__MIN`` and ``RUN - METRIC__MAX``."""
    names = ["" if cell.endswith(("__MIN", "__MAX")) else cell for cell in header]
    if names[0] not in ("Step", "Relative Time (Process)", "Wall Time") or not any(" - " in cell for cell in names):
        return names
    runs = sorted({cell.rsplit(" - ", 1)[0] for cell in names if " - " in cell})
    metrics = [cell.rsplit(" - ", 1)[-1] for cell in names]
    if len(runs) > 1 and len(set(filter(None, metrics))) < len(list(filter(None, metrics))):
        raise DataError(f"{path}: the export holds several runs ({', '.join(runs[:4])}); export one at a time")
    return metrics
