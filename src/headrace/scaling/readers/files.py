"""Which reader a path asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.errors import DataError
from headrace.scaling.points import Points
from headrace.scaling.readers.columns import points_from_rows
from headrace.scaling.readers.event_file import PATTERN, read_event_files
from headrace.scaling.readers.tables import read_csv, read_json, read_json_lines, read_parquet

TRAINER_STATE = "trainer_state.json"
_BY_SUFFIX: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
    ".parquet": read_parquet,
}


def read_points(path: str | Path, *, compute: str | None = None, score: str | None = None) -> Points:
    """The curve in a file: CSV, TSV, JSON lines, JSON, Parquet, ``trainer_state.json``, TensorBoard event file, or a
    folder with event files or a ``trainer_state.json``. ``compute`` and ``score`` name columns.

    Raises ``DataError`` when the path is none of these or the columns cannot be used.
    """
    path = Path(path)
    return points_from_rows(read_rows(path), name=path.name, compute=compute, score=score)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file or folder, by its kind."""
    if not path.exists():
        raise DataError(f"'{path}' does not exist")
    if path.is_dir():
        if (path / TRAINER_STATE).is_file():
            return read_json(path / TRAINER_STATE)
        if any(path.rglob(PATTERN)):
            return read_event_files(path)
        raise DataError(f"'{path}' holds no evals.jsonl, no {TRAINER_STATE} and no TensorBoard event files")
    if "tfevents" in path.name:
        return read_event_files(path)
    if path.suffix not in _BY_SUFFIX:
        raise DataError(f"'{path}': unknown kind of file; use one of {', '.join(_BY_SUFFIX)} or an event file")
    try:
        return _BY_SUFFIX[path.suffix](path)
    except UnicodeDecodeError:
        raise DataError(f"'{path}' is not text in UTF-8") from None
