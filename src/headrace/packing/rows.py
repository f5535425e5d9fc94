"""Binning rollouts into rows of one width. Pure, deterministic, first-fit decreasing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.errors import RecordError

GOOD_FILL = 0.95
# Attention of a row costs width squared, so wide rows are tried only when narrow ones leave holes.
WIDTH_FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """``members[r]`` are the indices that share row r, in order; every row is ``width`` wide."""

    width: int
    members: tuple[tuple[int, ...], ...]
    fill: float  # real tokens / (rows * width); 1.0 of nothing


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


def choose_rows(lengths: Sequence[int], *, max_width: int | None = None) -> Rows:
    """Rows near the longest rollout: the narrowest width tried that fills to 95 %, else the one that fills best.

    ``max_width`` bounds the width tried (a micro-batch's token budget), but never below the longest rollout.
    """
    if not lengths:
        return Rows(width=0, members=(), fill=1.0)
    longest, total = max(lengths), sum(lengths)
    limit = max(longest, max_width or longest * 4)
    best: Rows | None = None
    for width in sorted({min(round(longest * factor), limit) for factor in WIDTH_FACTORS}):
        members = bin_rows(lengths, width)
        fill = total / (len(members) * width)
        if best is None or fill > best.fill:
            best = Rows(width=width, members=tuple(map(tuple, members)), fill=fill)
        if fill >= GOOD_FILL:
            break
    assert best is not None
    return best
