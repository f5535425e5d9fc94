"""Which rows of a source are trained on, as rows retire and reserve rows take their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace.errors import DataError, RecordError

Effective = Literal["now", "next_epoch"]


class ActiveSet:
    """Walks the positions of a source in order and passes over rows that are not in the set.

    ``row_at(position)`` is the source's order: a permutation of ``num_rows`` rows for every ``num_rows`` positions (an
    epoch). ``reserve_frac`` of the rows, chosen and ordered by ``seed``, wait outside; each row that retires lets the
    next one in, at its own place in the order of the epochs. With an empty reserve the set shrinks; below ``minimum``
    rows the run cannot go on. Retirement is permanent and acts at once ('now') or when the next epoch is entered.

    With no reserve and no retirement the positions are 0, 1, 2, ...: the source as it is.
    """

    def __init__(
        self,
        num_rows: int,
        row_at: Callable[[int], int],
        *,
        reserve_frac: float = 0.0,
        seed: int = 0,
        minimum: int = 1,
        effective: Effective = "next_epoch",
    ) -> None:
        if num_rows < 1:
            raise ValueError(f"a set of {num_rows} rows has no prompt")
        if not 0 <= reserve_frac < 1:
            raise ValueError(f"reserve_frac {reserve_frac} lies outside [0, 1)")
        self._num_rows, self._row_at, self._minimum, self._effective = num_rows, row_at, max(minimum, 1), effective
        num_reserve = int(num_rows * reserve_frac)
        # An endless source has no reserve, and an order of its rows would not fit anywhere.
        self._reserve = seeded_order(num_rows, seed)[num_rows - num_reserve :] if num_reserve else []
        self._waiting = set(self._reserve)
        self._gone: set[int] = set()
        self._leaving: dict[int, None] = {}  # retire when the next epoch is entered
        self._cursor = 0

    def next_position(self) -> int:
        """The next position whose row is in the set. Raises ``DataError`` when fewer than ``minimum`` rows are left."""
        while True:
            if self._cursor % self._num_rows == 0:
                self._let_go()
            if self.size < self._minimum:
                raise DataError(
                    f"{self.size} prompts are left to train on and a step needs {self._minimum}: {self.num_retired} "
                    "retired because they are solved nearly always, and the reserve is empty. Use harder or more "
                    "prompts, a larger reserve, or a higher pass-rate threshold."
                )
            position = self._cursor
            self._cursor += 1
            if self.holds(self._row_at(position)):
                return position

    def holds(self, row: int) -> bool:
        """Whether a row is in the set now."""
        return row not in self._gone and row not in self._waiting

    def retire(self, row: int, *, now: bool = False) -> None:
        """Take a row out for good, at once or as the set does. A row that is not in the set stays as it is."""
        if not self.holds(row):
            return
        if now or self._effective == "now":
            self._replace(row)
        else:
            self._leaving[row] = None

    @property
    def size(self) -> int:
        """Rows in the set."""
        return self._num_rows - len(self._waiting) - len(self._gone)

    @property
    def num_retired(self) -> int:
        """Rows that have left the set."""
        return len(self._gone)

    @property
    def num_reserve(self) -> int:
        """Rows that still wait to take a place."""
        return len(self._waiting)

    @property
    def num_vacant(self) -> int:
        """Places nobody was left to take."""
        return max(len(self._gone) - len(self._reserve), 0)

    def to_dict(self) -> dict[str, Any]:
        """Plain state for a checkpoint."""
        return {
            "num_rows": self._num_rows,
            "num_reserve": len(self._reserve),
            "cursor": self._cursor,
            "gone": sorted(self._gone),
            "leaving": list(self._leaving),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up what ``to_dict`` wrote. Raises ``RecordError`` when it is of another source or reserve."""
        for name, here in (("num_rows", self._num_rows), ("num_reserve", len(self._reserve))):
            if state[name] != here:
                raise RecordError(f"the checkpoint's prompt set has {name} {state[name]}, this run has {here}")
        self._cursor, self._gone = state["cursor"], set(state["gone"])
        self._leaving = dict.fromkeys(state["leaving"])
        self._waiting = set(self._reserve[len(self._gone) :])

    def _let_go(self) -> None:
        for row in self._leaving:
            if self.holds(row):
                self._replace(row)
        self._leaving.clear()

    def _replace(self, row: int) -> None:
        # The reserve gives out its rows in order, one for each that left.
        if self._waiting:
            self._waiting.remove(self._reserve[len(self._gone)])
        self._gone.add(row)


def seeded_order(size: int, seed: int) -> list[int]:
    """A permutation of ``range(size)``, by a hash of each row's number: the same in every version of every library."""
    rows: npt.NDArray[np.uint64] = np.arange(size, dtype=np.uint64)
    start = np.array([seed & (2**64 - 1)], dtype=np.uint64)
    keys = _mix(_mix(start) ^ _mix(rows))
    return np.lexsort((rows, keys)).tolist()


def _mix(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64, on unsigned 64-bit integers that wrap around."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
