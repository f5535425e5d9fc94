"""Sets of real numbers: intervals, unions, inequalities in one variable, isolated points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.verifiers.math_formula import close, numeric
from headrace.verifiers.math_shape import braces, is_symbol, parts, relation, row
from headrace.verifiers.math_value import context

_JOINED = re.compile(r"\\cup(?![A-Za-z])|(?<=[)\]}])\s*U\s*(?=[(\[\\])")
_LOW, _HIGH = -context.inf, context.inf


@dataclass(frozen=True, slots=True)
class Piece:
    """One interval; a point has equal, closed ends."""

    low: Any
    high: Any
    low_open: bool
    high_open: bool


@dataclass(frozen=True, slots=True)
class RealSet:
    """Merged, sorted pieces, and the variable that was named (or '')."""

    pieces: tuple[Piece, ...]
    variable: str = ""

    def same(self, other: RealSet) -> bool:
        """Whether both hold the same numbers, of the same variable where both name one."""
        if self.variable and other.variable and self.variable.casefold() != other.variable.casefold():
            return False
        return len(self.pieces) == len(other.pieces) and all(
            close(a.low, b.low) and close(a.high, b.high) and (a.low_open, a.high_open) == (b.low_open, b.high_open)
            for a, b in zip(self.pieces, other.pieces, strict=True)
        )


def real_set(text: str) -> RealSet | None:
    """The set a normalised text describes; None when it is none, or has ends that are not numbers."""
    text = text.strip()
    variable = ""
    found = re.match(r"^([^\\]{1,8}|\\[A-Za-z]+)\s*\\in(?![A-Za-z])", text)
    if found:
        variable, text = found[1].strip(), text[found.end() :].strip()
    builder = re.fullmatch(r"\\\{\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\{R\}|\\in\s*R)?\s*(?:\||:)\s*(.*)\\\}", text)
    if builder:
        text = builder[2].strip()
    if found is None and len(relation(text)) > 1:
        return _inequalities(text)
    holes: list[Piece] = []
    cut = re.split(r"\\(?:setminus|backslash)(?![A-Za-z])", text)
    if len(cut) == 2:
        points = _one(cut[1].strip())
        if points is None or any(point.low != point.high for point in points):
            return None
        text, holes = cut[0], points
    pieces: list[Piece] = []
    for part in _JOINED.split(text):
        one = _one(part.strip())
        if one is None:
            return None
        pieces += one
    return RealSet(_without(_merged(pieces), holes), variable)


def _one(text: str) -> list[Piece] | None:
    if text in ("\\mathbb{R}", "R"):
        return [Piece(_LOW, _HIGH, True, True)]
    points = braces(text)
    if points is not None:
        values = [numeric(point) for point in points]
        return (
            None if any(value is None for value in values) else [Piece(value, value, False, False) for value in values]
        )
    pair = row(text)
    if pair is None or len(pair.items) != 2:
        return None
    low, high = (numeric(item) for item in pair.items)
    if low is None or high is None or low > high:
        return None
    return [
        Piece(low, high, pair.brackets[0] == "(" or context.isinf(low), pair.brackets[1] == ")" or context.isinf(high))
    ]


def _inequalities(text: str) -> RealSet | None:
    """``1 < x \\le 2``, ``x < 1, x > 3`` (either), ``x > 1, x < 3`` (both), ``x \\ne 3``, ``|x| < 2``."""
    found = [_chain(relation(part)) for part in parts(text)]
    sets = [_merged(one[1]) for one in found if one is not None]
    variables = {one[0] for one in found if one is not None}
    if len(sets) < len(found) or len(variables) != 1:
        return None
    result = sets[0]
    for other in sets[1:]:  # conditions that overlap hold together, others are alternatives
        both = _common(result, other)
        result = both if both and both not in (result, other) else _merged([*result, *other])
    return RealSet(result, variables.pop())


def _common(one: tuple[Piece, ...], other: tuple[Piece, ...]) -> tuple[Piece, ...]:
    found = []
    for a in one:
        for b in other:
            low, low_open = max((a.low, a.low_open), (b.low, b.low_open))
            high, high_closed = min((a.high, not a.high_open), (b.high, not b.high_open))
            if low < high or (low == high and not low_open and high_closed):
                found.append(Piece(low, high, low_open, not high_closed))
    return tuple(found)


def _chain(sides: list[str]) -> tuple[str, list[Piece]] | None:
    if len(sides) == 3:
        left, sign, right = sides
        if _is_variable(right) and not _is_variable(left):
            left, sign, right = right, {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}.get(sign, sign), left
        value = numeric(right)
        if value is None:
            return None
        absolute = re.fullmatch(r"\|(.+)\|", left)
        if absolute and _is_variable(absolute[1]) and value > 0:
            return absolute[1], _absolute(sign, value)
        return (left, _half_line(sign, value)) if _is_variable(left) else None
    if (
        len(sides) != 5
        or not _is_variable(sides[2].strip("|"))
        or not ({sides[1], sides[3]} <= {"<", "\\le"} or {sides[1], sides[3]} <= {">", "\\ge"})
    ):
        return None
    low, high = numeric(sides[0]), numeric(sides[4])
    if low is None or high is None:
        return None
    signs = (sides[1], sides[3])
    if signs[0] in (">", "\\ge"):
        low, high, signs = high, low, (sides[3], sides[1])
    piece = Piece(low, high, signs[0] in "<>" or context.isinf(low), signs[1] in "<>" or context.isinf(high))
    if sides[2].startswith("|"):
        return (sides[2].strip("|"), [piece, Piece(-high, -low, piece.high_open, piece.low_open)]) if low >= 0 else None
    return sides[2], [piece]


def _is_variable(text: str) -> bool:
    return (is_symbol(text) and numeric(text) is None) or re.fullmatch(r"[fgh]\([a-z]\)", text) is not None


def _half_line(sign: str, value: Any) -> list[Piece]:
    if sign == "\\ne":
        return [Piece(_LOW, value, True, True), Piece(value, _HIGH, True, True)]
    if sign in ("<", "\\le"):
        return [Piece(_LOW, value, True, sign == "<")]
    return [Piece(value, _HIGH, sign == ">", True)] if sign in (">", "\\ge") else [Piece(value, value, False, False)]


def _absolute(sign: str, value: Any) -> list[Piece]:
    if sign in ("<", "\\le"):
        return [Piece(-value, value, sign == "<", sign == "<")]
    return [Piece(_LOW, -value, True, sign == ">"), Piece(value, _HIGH, sign == ">", True)]


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Sorted, with pieces that touch or overlap made one."""
    merged: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.low, p.low_open)):
        last = merged[-1] if merged else None
        touching = last is not None and (
            piece.low < last.high or (close(piece.low, last.high) and not (piece.low_open and last.high_open))
        )
        if last is None or not touching:
            merged.append(piece)
        else:
            end, is_closed = max((last.high, not last.high_open), (piece.high, not piece.high_open))
            merged[-1] = Piece(last.low, end, last.low_open, not is_closed)
    return tuple(merged)


def _without(pieces: tuple[Piece, ...], holes: list[Piece]) -> tuple[Piece, ...]:
    for hole in holes:
        cut: list[Piece] = []
        for piece in pieces:
            if piece.low < hole.low < piece.high:
                cut += [
                    Piece(piece.low, hole.low, piece.low_open, True),
                    Piece(hole.low, piece.high, True, piece.high_open),
                ]
            else:
                cut.append(piece)
        pieces = tuple(cut)
    return pieces
