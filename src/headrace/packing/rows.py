"""Binning rollouts into rows, and rows into micro-batches. Pure and deterministic.

Rollouts of one group that lie in the same row share one block of prompt tokens, so a group is worth keeping together.
Wide rows share more and leave fewer holes; attention, which costs width squared, speaks for narrow ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headrace.errors import RecordError

GOOD_FILL = 0.9
ATTENTION_WIDTH = 1000
"""Width at which a token's attention costs as much as the rest of it: measured on a 0.6M-parameter model on one CPU
thread (700 on the path of other small models). Larger models tolerate wider rows; the figure only ranks layouts."""

WIDTH_FACTORS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)


@dataclass(frozen=True, slots=True)
class Pieces:
    """What is to be placed. Rollout i brings ``own[i]`` tokens, and into a row without a block of its group also the
    ``prompt[group[i]]`` tokens of that block."""

    own: Sequence[int]  # [B], > 0
    group: Sequence[int]  # [B], into prompt
    prompt: Sequence[int]  # [G], 0 where nothing is shared

    @property
    def lengths(self) -> list[int]:
        """Tokens [B] of each rollout with its prompt."""
        return [own + self.prompt[g] for own, g in zip(self.own, self.group, strict=True)]

    def apart(self) -> Pieces:
        """The same rollouts when nothing is shared."""
        return Pieces(self.lengths, range(len(self.own)), [0] * len(self.own))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One micro-batch: ``members[r]`` are the rollouts that share row r, in order, those of one group side by side.

    Every row is ``width`` wide; ``num_real`` tokens of all rows together are no padding.
    """

    width: int
    members: tuple[tuple[int, ...], ...]
    num_real: int

    @property
    def size(self) -> int:
        """Tokens, padding included."""
        return self.width * len(self.members)


def plan_rows(pieces: Pieces, budget: int) -> tuple[Rows, ...]:
    """Micro-batches of at most ``budget`` tokens each (padding included) that hold every rollout once.

    Tried are rows near the longest rollout, several to a row, and rollouts sorted by length, one to a row; taken is
    the cheapest that fills to 90 % (the cheapest of all when none does). Where prompts are shared, the layouts that
    share nothing are tried as well, unless no such layout can be cheaper. Raises ``RecordError`` when a rollout is
    longer than ``budget``.
    """
    lengths = pieces.lengths
    if not lengths:
        return ()
    longest = max(lengths)
    if longest > budget:
        raise RecordError(f"a rollout of {longest} tokens does not fit a micro-batch of {budget}")
    widths = sorted({min(round(longest * factor), budget) for factor in WIDTH_FACTORS})
    plans = [_cut(pieces, width, bin_rows(pieces, width), budget) for width in widths]
    best = min(plans, key=lambda plan: _rank(plan, fill(plan)))
    if _cost(best) <= sum(length * _token_cost(length) for length in lengths):
        return best
    plans = [_sorted(lengths, budget)]
    if any(pieces.prompt) and _cost(best) > sum(lengths) * _token_cost(longest):
        plans += [_cut(pieces, width, bin_rows(pieces.apart(), width), budget) for width in widths]
    # These are held to the fill they have with a prompt a rollout, or the few that come to share one would bar them.
    apart = min(plans, key=lambda plan: _rank(plan, sum(lengths) / _size(plan)))
    return min((best, fill(best)), (apart, sum(lengths) / _size(apart)), key=lambda pair: _rank(*pair))[0]


def fill(plan: Sequence[Rows]) -> float:
    """Real tokens over tokens; 1.0 of nothing."""
    return sum(rows.num_real for rows in plan) / _size(plan) if plan else 1.0


def bin_rows(pieces: Pieces, width: int) -> list[list[int]]:
    """Best-fit decreasing: the largest group first, in it the longest rollout (ties by index); each into the fullest
    row that has room for it, rows with a block of its group before all others.

    Where nothing is shared every rollout counts as a group of its own. Raises ``RecordError`` when a rollout exceeds
    ``width``.
    """
    longest = max(pieces.lengths, default=0)
    if longest > width:
        raise RecordError(f"a rollout of {longest} tokens does not fit a row of {width}")
    shelf = _Shelf(width)
    blocks: list[list[int]] = [[] for _ in pieces.prompt]
    for index in _decreasing(pieces):
        need, group = pieces.own[index], pieces.group[index]
        row = shelf.fullest(blocks[group], need)
        if row is None:
            need += pieces.prompt[group]
            row = shelf.fullest_of_all(need)
            if pieces.prompt[group]:
                blocks[group].append(row)
        shelf.put(index, row, need)
    return shelf.rows


class _Shelf:
    """Rows of one width while they are filled. ``_by_room`` finds rows by the room left; an entry whose row has been
    filled further since is stale and dropped when met. Bit x of ``_rooms`` is set where a list may not be empty."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.rows: list[list[int]] = []
        self._room: list[int] = []
        self._by_room: list[list[int]] = [[] for _ in range(width + 1)]
        self._rooms = 0

    def fullest(self, candidates: Sequence[int], need: int) -> int | None:
        """Among these rows the one with the least room that is enough."""
        best, left = None, self._width + 1
        for row in candidates:
            if need <= self._room[row] < left:
                best, left = row, self._room[row]
        return best

    def fullest_of_all(self, need: int) -> int:
        """Among all rows the one with the least room that is enough, else a new one."""
        while enough := self._rooms >> need:
            room = need + (enough & -enough).bit_length() - 1
            rows = self._by_room[room]
            while rows and self._room[rows[-1]] != room:
                rows.pop()
            if rows:
                return rows[-1]
            self._rooms ^= 1 << room
        self.rows.append([])
        self._room.append(self._width)
        return len(self.rows) - 1

    def put(self, index: int, row: int, need: int) -> None:
        self.rows[row].append(index)
        room = self._room[row] = self._room[row] - need
        self._by_room[room].append(row)
        self._rooms |= 1 << room


def _decreasing(pieces: Pieces) -> list[int]:
    own, group, prompt = (np.asarray(values, dtype=np.int64) for values in (pieces.own, pieces.group, pieces.prompt))
    total = np.bincount(group, weights=own, minlength=len(prompt))[group]
    alone = prompt[group] == 0
    size = np.where(alone, own, total)
    label = np.where(alone, len(prompt) + np.arange(len(own)), group)
    return np.lexsort((np.arange(len(own)), -own, label, -size)).tolist()


def _cut(pieces: Pieces, width: int, rows: Sequence[Sequence[int]], budget: int) -> tuple[Rows, ...]:
    """Rows of one width in micro-batches of as equal a number of rows as can be."""
    count = -(-len(rows) // (budget // width))
    bounds = [len(rows) * i // count for i in range(count + 1)]
    return tuple(_rows(pieces, width, rows[a:b]) for a, b in pairwise(bounds))


def _rows(pieces: Pieces, width: int, rows: Sequence[Sequence[int]]) -> Rows:
    group, prompt = pieces.group, pieces.prompt
    own = sum(pieces.own[i] for row in rows for i in row)
    blocks = sum(prompt[g] for row in rows for g in {group[i] for i in row})
    members = tuple(tuple(sorted(row, key=group.__getitem__)) for row in rows)
    return Rows(width=width, members=members, num_real=own + blocks)


def _sorted(lengths: Sequence[int], budget: int) -> tuple[Rows, ...]:
    """One rollout a row, the longest first; each micro-batch as wide as its first."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    plan: list[Rows] = []
    start = 0
    while start < len(order):
        width = lengths[order[start]]
        members = order[start : start + budget // width]
        num_real = sum(lengths[i] for i in members)
        plan.append(Rows(width=width, members=tuple((i,) for i in members), num_real=num_real))
        start += len(members)
    return tuple(plan)


def _rank(plan: Sequence[Rows], filled: float) -> tuple[bool, float]:
    return filled < GOOD_FILL, _cost(plan)


def _size(plan: Sequence[Rows]) -> int:
    return sum(rows.size for rows in plan)


def _cost(plan: Sequence[Rows]) -> float:
    return sum(rows.size * _token_cost(rows.width) for rows in plan)


def _token_cost(width: int) -> float:
    return 1 + width / ATTENTION_WIDTH
