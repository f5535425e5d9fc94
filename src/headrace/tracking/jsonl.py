"""JSON lines that survive a kill: a line is one write, and a torn last line spoils neither reading nor appending."""

from __future__ import annotations

import errno
import json
import math
from collections import deque
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from headrace.tracking.disk_full import DiskFull


class LineLog:
    """A file of lines that outlives a full disk: lines that found no space are written before the next one.

    ``kind`` says what the lines are, for the warning.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._file = open_for_append(path)
        self._disk = DiskFull(kind)
        self._waiting: deque[str] = deque()

    @property
    def num_unwritten(self) -> int:
        """Lines that wait for space."""
        return len(self._waiting)

    def append(self, line: str) -> None:
        """Write a line, in order. Raises ``OSError`` for anything but a full disk."""
        self._waiting.append(line)
        self._write()

    def _write(self) -> None:
        with self._disk.survive():
            while self._waiting:
                write_line(self._file, self._waiting[0])
                self._waiting.popleft()

    def close(self) -> None:
        """Try once more and close the file. May be called again."""
        if not self._file.closed:
            self._write()
            self._file.close()


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
    """Hand one line to the operating system in a single write, so that a kill leaves it whole or not there.

    So does a full disk, which raises ``OSError``: the part that found space is taken back.
    """
    data = (line + "\n").encode()
    written = file.write(data)
    if written != len(data):
        file.truncate(file.seek(0, 2) - (written or 0))
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written", str(file.name))


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
