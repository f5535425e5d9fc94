"""Binning rollouts into rows, and rows into micro-batches. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headrace.errors import RecordError

GOOD_FILL = 0.9
ATTENTION_WIDTH = 500
"""Width at which a token's attention costs as much as the rest of it: measured on a 0.6M-parameter model on one CPU
thread. Larger models tolerate wider rows; the figure only ranks layouts."""

# Attention of a row costs width squared, so wide rows pay only when narrow ones leave holes.
WIDTH_FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One micro-batch: ``members[r]`` are the rollouts that share row r, in order; every row is ``width`` wide."""

    width: int
    members: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Tokens, padding included."""
        return self.width * len(self.members)


def plan_rows(lengths: Sequence[int], budget: int) -> tuple[Rows, ...]:
    """Micro-batches of at most ``budget`` tokens each (padding included) that hold every rollout once.

    Tried are rows near the longest rollout, several to a row, and rollouts sorted by length, one to a row; taken is
    the cheapest that fills to 90 % (the cheapest of all when none does), so that packing never loses to sorting.
    Raises ``RecordError`` when a rollout is longer than ``budget``.
    """
    if not lengths:
        return ()
    longest = max(lengths)
    if longest > budget:
        raise RecordError(f"a rollout of {longest} tokens does not fit a micro-batch of {budget}")
    widths = sorted({min(round(longest * factor), budget) for factor in WIDTH_FACTORS})
    plans = [_sorted(lengths, budget), *(_packed(lengths, width, budget) for width in widths)]
    return min(plans, key=lambda plan: (fill(lengths, plan) < GOOD_FILL, _cost(plan)))


def fill(lengths: Sequence[int], plan: Sequence[Rows]) -> float:
    """Real tokens over tokens; 1.0 of nothing."""
    size = sum(rows.size for rows in plan)
    return sum(lengths) / size if size else 1.0


def bin_rows(lengths: Sequence[int], width: int) -> list[list[int]]:
    """First-fit decreasing: the longest first (ties by index), each into the first row with room.

    Raises ``RecordError`` when a length exceeds ``width``.
    """
    if max(lengths, default=0) > width:
        raise RecordError(f"a rollout of {max(lengths)} tokens does not fit a row of {width}")
    rows: list[list[int]] = []
    room = np.full(len(lengths), width, dtype=np.int64)
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        row = int(np.argmax(room >= lengths[index]))
        if row == len(rows):
            rows.append([])
        rows[row].append(index)
        room[row] -= lengths[index]
    return rows


def _packed(lengths: Sequence[int], width: int, budget: int) -> tuple[Rows, ...]:
    """First-fit decreasing rows of one width, cut into micro-batches of as equal a number of rows as can be."""
    rows = bin_rows(lengths, width)
    count = -(-len(rows) // (budget // width))
    bounds = [len(rows) * i // count for i in range(count + 1)]
    return tuple(Rows(width=width, members=tuple(map(tuple, rows[a:b]))) for a, b in pairwise(bounds))


def _sorted(lengths: Sequence[int], budget: int) -> tuple[Rows, ...]:
    """One rollout a row, the longest first; each micro-batch as wide as its first."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    plan: list[Rows] = []
    start = 0
    while start < len(order):
        width = lengths[order[start]]
        members = order[start : start + budget // width]
        plan.append(Rows(width=width, members=tuple((i,) for i in members)))
        start += len(members)
    return tuple(plan)


def _cost(plan: Sequence[Rows]) -> float:
    return sum(rows.size * (1 + rows.width / ATTENTION_WIDTH) for rows in plan)
