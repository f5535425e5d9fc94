"""Rows of a data set with the numbers they had in their file, and the rows that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.errors import DataError, nearest

BadRows = Literal["error", "drop"]


@dataclass(slots=True)
class Table:
    """Usable rows. ``numbers[i]`` is the place of ``rows[i]`` in ``source`` from 1 (a line, in JSONL)."""

    source: str
    bad_rows: BadRows = "error"
    rows: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    dropped: dict[int, str] = field(default_factory=dict)  # row number -> why

    def add(self, number: int, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.numbers.append(number)

    def refuse(self, number: int, why: str) -> None:
        """Stop with an error that names the row, or note it as dropped, as ``bad_rows`` says."""
        if self.bad_rows == "error":
            raise DataError(
                f"{self.source}, row {number}: {why} Mend the row, or set task.bad_rows to 'drop' to leave such rows "
                "out."
            )
        self.dropped[number] = why

    def keep(self, usable: list[bool], why: list[str]) -> Table:
        """The table with only the usable rows; ``why[i]`` says what is wrong with row i."""
        kept = Table(self.source, self.bad_rows, dropped=self.dropped)
        for row, number, good, reason in zip(self.rows, self.numbers, usable, why, strict=True):
            if good:
                kept.add(number, row)
            else:
                kept.refuse(number, reason)
        return kept

    def require_rows(self) -> Table:
        """Itself, or ``DataError`` when nothing usable is left."""
        if self.rows:
            return self
        if not self.dropped:
            raise DataError(f"{self.source}: the data set is empty; at least one row is needed.")
        number, why = next(iter(self.dropped.items()))
        raise DataError(f"{self.source}: all {len(self.dropped)} rows were dropped; the first, row {number}: {why}")


def check_columns(source: str, where: str, found: list[str], needed: Mapping[str, str]) -> None:
    """Raise ``DataError`` listing the columns there are when one of ``needed`` (column -> its key) is not among "
    "them."""
    for column, key in needed.items():
        if column not in found:
            raise DataError(
                f"{source}{where}: there is no column '{column}' ({key}); the columns are: "
                f"{', '.join(found) or 'none'}.{nearest(column, found)}"
            )


def answer_text(value: Any) -> str:
    """A gold answer as text, whatever type its file gave it: 54 -> '54', 0.5 -> '0.5', true -> 'true'."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
