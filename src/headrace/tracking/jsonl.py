"""JSON lines that survive a kill: a line is one write, and a torn last line spoils neither reading nor appending."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any


def open_for_append(path: Path) -> FileIO:
    """An unbuffered file to append whole lines to. A line torn by an earlier kill is closed off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not _ends_with_newline(path)
    file = FileIO(path, "a")
    if torn:
        file.write(b"\n")
    return file


def append_line(path: Path, line: str) -> None:
    """Append one line and close the file."""
    with open_for_append(path) as file:
        write_line(file, line)


def write_line(file: FileIO, line: str) -> None:
    """Hand one line to the operating system in a single write, so that a kill leaves it whole or not there."""
    data = (line + "\n").encode()
    written = file.write(data)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written to {file.name!r}; is the disk full?")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All rows of a file, lines torn by a kill left out; [] when the file is not there."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def finite(value: Any) -> tuple[Any, int]:
    """``value`` as JSON can hold it, non-finite numbers as None, and how many of those there were.

    Mappings and sequences are gone through; numpy scalars become Python numbers.
    """
    if isinstance(value, Mapping):
        pairs = {str(key): finite(item) for key, item in value.items()}
        return {key: item for key, (item, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, (list, tuple)):
        items = [finite(item) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    if value is None or isinstance(value, (str, bool, int)):
        return value, 0
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, float) and not math.isfinite(number):
        return None, 1
    return number, 0


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
