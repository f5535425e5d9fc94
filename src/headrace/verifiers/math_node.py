"""The tree of a formula, and the tokens it is read from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,6}(?![\d.A-Za-z]))?)
    |\\text\{(?P<text>[^{}]*)\}
    |\\(?P<command>[A-Za-z]+)
    |(?P<letter>[A-Za-z]'*)
    |(?P<escaped>\\[{}|])
    |(?P<sign>[-+*/^_{}()\[\]|!,=<>%]))""",
    re.VERBOSE,
)


class Unreadable(Exception):  # noqa: N818
    """The text is not a formula this reader knows."""


class TooDeep(Unreadable):
    """Brackets nested further than anybody writes them."""


@dataclass(frozen=True, slots=True)
class Node:
    """``op`` is num, sym, const, add, mul, pow, fact, fact2, abs, floor, ceil, binom, sum, prod, call or root.

    ``value`` is the number, or the name of a symbol, constant or function.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: Fraction | str | None = None


def number(value: int | Fraction) -> Node:
    """A leaf with a number."""
    return Node("num", (), Fraction(value))


def negative(node: Node) -> Node:
    """-node."""
    if node.op == "num" and isinstance(node.value, Fraction):
        return number(-node.value)
    return Node("mul", (number(-1), node))


def tokens_of(text: str) -> list[tuple[str, str]]:
    """(kind, text) of every token. Raises ``Unreadable``."""
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise Unreadable(f"'{text[place : place + 10]}' is not expected")
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind]))
        place = found.end()
    return tokens
