"""Lists, names and chains of relations: what a normalised answer is made of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.verifiers.math_formula import numeric
from headrace.verifiers.math_shape import is_name, parts, relation


def ungrouped(text: str) -> str:
    """The text with thousands written without commas."""
    return re.sub(r"(?<![\d.,])(\d{1,3})((?:,\d{3})+)(?![\d,])", lambda m: m[1] + m[2].replace(",", ""), text.strip())


def listed(text: str) -> list[str]:
    """The answers of a list: separators cut, ``\\pm`` made two, groups between semicolons made tuples."""
    groups = parts(text, ";")
    if len(groups) > 1:
        text_parts = [
            group if len(parts(group)) < 2 else f"({', '.join(value_of(p) if name_of(p) else p for p in parts(group))})"
            for group in groups
        ]
    else:
        text_parts = parts(text)
    return [each for part in text_parts for each in signs(part)] or [text]


def signs(text: str) -> list[str]:
    """Both readings of ``\\pm``, or the text alone."""
    if "\\pm" not in text:
        return [text.strip()]
    upper = re.sub(r"\\mp\s*", "-", re.sub(r"\\pm\s*", "+", text)).strip()
    lower = re.sub(r"\\mp\s*", "+", re.sub(r"\\pm\s*", "-", text)).strip()
    return [re.sub(r"^\+", "", re.sub(r"=\s*\+", "=", side)) for side in (upper, lower)]


def related(text: str) -> bool:
    """Whether a relation sign stands outside brackets."""
    return len(relation(text)) > 1


def is_equation(text: str) -> bool:
    """Whether the first relation is ``=``."""
    return relation(text)[1:2] == ["="]


def name_of(text: str) -> str:
    """The name in front of ``=``, or ''."""
    sides = relation(text)
    return sides[0] if len(sides) >= 3 and sides[1] in ("=", "\\in") and is_name(sides[0]) else ""


def value_of(text: str) -> str:
    """What stands behind the last ``=``, before an approximation."""
    sides = relation(text)
    return sides[-1] if "\\approx" not in sides else sides[sides.index("\\approx") - 1]


def uniform(names: Sequence[str]) -> bool:
    """Whether one name stands before the first value and no other before the rest: ``a = 4, -8``."""
    return bool(names[0]) and set(names[1:]) <= {names[0], ""}


def settled(text: str) -> list[str] | str:
    """A chain without its intermediate steps: ``x = 5+6 = 11`` is ``x = 11``, ``1/3 \\approx 0.33`` is 1/3."""
    sides = relation(text)
    if sides[:2] == ["", "\\approx"]:
        sides = sides[2:]
    if "\\approx" in sides[1::2]:
        at = sides.index("\\approx")
        sides = [sides[0], "=", sides[2]] if at == 1 and is_name(sides[0]) else sides[:at]
    if len(sides) > 3 and set(sides[1::2]) == {"="}:
        sides = [sides[0], "=", sides[-1]] if is_name(sides[0]) else sides
        if len(sides) > 3 and all(numeric(side) is not None for side in sides[::2]):
            return sides[-1]
    if len(sides) == 3 and sides[1] == "=" and numeric(sides[0]) is not None and numeric(sides[2]) is not None:
        return sides[2]
    if len(sides) == 3 and sides[1] == "\\in":
        return [sides[0], "\\in", sides[2]]
    return sides[0] if len(sides) == 1 else sides


def ordered(many: Sequence[str], one: Sequence[str], swapped: bool) -> tuple[Sequence[str], Sequence[str]]:
    """(answer, gold) again, where either of them may have been the list."""
    return (one, many) if swapped else (many, one)
