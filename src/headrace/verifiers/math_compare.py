"""Whether an answer means what the gold means, form by form: lists, tuples, sets, relations, then single values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.verifiers.math_exact import TooLarge, Undefined
from headrace.verifiers.math_fallback import looks_like_code
from headrace.verifiers.math_forms import (
    is_equation,
    listed,
    name_of,
    ordered,
    related,
    settled,
    signs,
    uniform,
    value_of,
)
from headrace.verifiers.math_formula import FLIPPED, numeric, same_equation, same_inequality
from headrace.verifiers.math_node import TooDeep, Unreadable
from headrace.verifiers.math_options import MathOptions
from headrace.verifiers.math_sets import real_set
from headrace.verifiers.math_shape import Row, bare, braces, is_name, is_symbol, matrix, row
from headrace.verifiers.math_single import same_single
from headrace.verifiers.math_special import same_special, same_texts
from headrace.verifiers.math_text import normalise, squash
from headrace.verifiers.math_words import words

MAX_CHARACTERS = 4_000
_MAX_NESTING = 100
_MAX_ITEMS = 200
_MAX_DEPTH = 6
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_ALL, _ALL_WORDS = "\\mathbb{R}", ("all real numbers", "all reals", "全体实数", "all real numbers x")
OTHER = "another answer"


def difference(answer: str, gold: str, options: MathOptions | None = None) -> str | None:
    """None when both mean the same, else the reason why the answer is not right."""
    if len(answer) > MAX_CHARACTERS or len(gold) > MAX_CHARACTERS:
        return None if answer.split() == gold.split() else "the answer is too long"
    if _nesting(answer) > _MAX_NESTING:
        return None if answer.strip() == gold.strip() else "nested too deeply"
    answer, gold = normalise(answer), normalise(gold)
    if squash(answer) == squash(gold) and squash(gold) and has_a_value(gold):
        return None
    if looks_like_code(answer) and "\\text{" not in answer and words(answer) is None:
        return "the answer looks like code"
    try:
        return None if _Comparison(options or MathOptions()).same(answer, gold) else OTHER
    except TooLarge:
        return "too large to compute"
    except (TooDeep, RecursionError):
        return "nested too deeply"


def has_a_value(text: str) -> bool:
    """What has no value, such as 0/0, is not even equal to itself."""
    return not re.search(r"\\frac\{[^{}]*\}\{0\}|/\s*0(?![.\d])", text)


def _point(text: str, other: str) -> str:
    """``P(3, -4)`` without its name where the other side is a bare tuple."""
    named = re.fullmatch(r"[A-Z]'?\s*(\(.*\))", text)
    return named[1] if named and row(named[1]) is not None and row(other) is not None else text


def _nesting(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        deepest = max(deepest, depth)
    return deepest


class _Comparison:
    def __init__(self, options: MathOptions) -> None:
        self._options = options

    def same(self, answer: str, gold: str, depth: int = 0) -> bool:
        if depth > _MAX_DEPTH:
            raise TooDeep("nested too deeply")
        answer, gold = bare(answer), bare(gold)
        if not answer or not gold:
            return False
        if squash(answer) == squash(gold):
            return has_a_value(answer)
        answer, gold = (_ALL if words(side) in _ALL_WORDS else side for side in (answer, gold))
        answer, gold = _point(answer, gold), _point(gold, answer)
        special = same_special(answer, gold, lambda a, g: self.same(normalise(a), normalise(g), depth + 1))
        if special is not None:
            return special
        ours, theirs = listed(answer), listed(gold)
        if len(ours) > 1 or len(theirs) > 1:
            return self._same_lists(answer, gold, ours, theirs, depth)
        answer, gold = ours[0], theirs[0]
        return (
            self._same_relations(answer, gold, depth)
            if related(answer) or related(gold)
            else self._same_one(answer, gold, depth)
        )

    def _same_lists(self, answer: str, gold: str, ours: Sequence[str], theirs: Sequence[str], depth: int) -> bool:
        whole = real_set(answer), real_set(gold)
        if whole[0] is not None and whole[1] is not None:
            return whole[0].same(whole[1])
        if len(ours) == 1 or len(theirs) == 1:
            return self._list_against_one(answer, gold, ours, theirs, depth)
        names = [[name_of(item) for item in items] for items in (ours, theirs)]
        values = [
            [value_of(item) if name else item for item, name in zip(items, own, strict=True)]
            for items, own in zip((ours, theirs), names, strict=True)
        ]
        distinct = [len(set(own) - {""}) > 1 for own in names]
        if distinct[0] and distinct[1]:
            return self._same_collection(ours, theirs, depth)
        if distinct[0] or distinct[1]:
            return self._same_sequence(values[0], values[1], depth)
        if uniform(names[0]) and uniform(names[1]) and not self._same_names(names[0][0], names[1][0]):
            return False
        kept = [v if uniform(n) else i for v, n, i in zip(values, names, (ours, theirs), strict=True)]
        return self._same_collection(kept[0], kept[1], depth)

    def _same_names(self, one: str, other: str) -> bool:
        return not one or not other or one.casefold() == other.casefold() or not (is_symbol(one) and is_symbol(other))

    def _list_against_one(self, answer: str, gold: str, ours: Sequence[str], theirs: Sequence[str], depth: int) -> bool:
        """Several values in a list against a set in braces, a tuple, or a decimal written with a comma."""
        many, one, swapped = (ours, theirs[0], False) if len(ours) > 1 else (theirs, ours[0], True)
        text = answer if not swapped else gold
        inner = bare(value_of(one) if name_of(one) else one)
        elements = braces(inner)
        sequence = row(inner)
        named = [value_of(item) if name_of(item) else item for item in many]
        if elements is not None:
            expanded = [each for element in elements for each in signs(element)]
            return self._same_collection(*ordered(named, expanded, swapped), depth)
        if sequence is not None and sequence.brackets == "()":
            return self._same_sequence(*ordered(named, list(sequence.items), swapped), depth)
        if _DECIMAL_COMMA.fullmatch(text) and numeric(inner) is not None and "." in inner:
            pair = ordered([text.replace(",", ".")], [inner], swapped)
            return self._same_one(pair[0][0], pair[1][0], depth)
        return False

    def _same_sequence(self, ours: Sequence[str], theirs: Sequence[str], depth: int) -> bool:
        return len(ours) == len(theirs) and all(self.same(a, g, depth + 1) for a, g in zip(ours, theirs, strict=True))

    def _same_collection(self, ours: Sequence[str], theirs: Sequence[str], depth: int) -> bool:
        """Every element of either side has its like on the other: order and repetition do not count."""
        if len(ours) > _MAX_ITEMS or len(theirs) > _MAX_ITEMS:
            return sorted(map(squash, ours)) == sorted(map(squash, theirs))
        spelled = [{squash(item) for item in items} for items in (ours, theirs)]
        left = [
            [i for i in items if squash(i) not in other]
            for items, other in zip((ours, theirs), reversed(spelled), strict=True)
        ]
        if len(left[0]) * len(left[1]) > 2500:
            raise TooLarge
        return all(any(self.same(a, g, depth + 1) for g in theirs) for a in left[0]) and all(
            any(self.same(a, g, depth + 1) for a in ours) for g in left[1]
        )

    def _same_relations(self, answer: str, gold: str, depth: int) -> bool:
        whole = real_set(answer), real_set(gold)
        if whole[0] is not None and whole[1] is not None and not (is_equation(answer) and is_equation(gold)):
            return whole[0].same(whole[1])
        a, g = settled(answer), settled(gold)
        if isinstance(a, str) and isinstance(g, str):
            return self.same(a, g, depth + 1)
        if isinstance(a, str) or isinstance(g, str):
            if isinstance(a, str):
                return self._relation_against_value(list(g), a, swapped=True, depth=depth)
            return self._relation_against_value(a, str(g), swapped=False, depth=depth)
        return self._same_chains(a, g, depth)

    def _relation_against_value(self, chain: list[str], other: str, *, swapped: bool, depth: int) -> bool:
        """``x = 9`` (or ``9 = x``) against 9: the name only says what the value is of."""
        if len(chain) != 3 or chain[1] not in ("=", "\\in"):
            return False
        left, _, right = chain
        if is_name(left):
            value = right
        elif is_symbol(right) and numeric(left) is not None:
            value = left
        else:
            return False
        return self.same(*((other, value) if swapped else (value, other)), depth + 1)

    def _same_chains(self, a: list[str], g: list[str], depth: int) -> bool:
        if len(a) == 5 and len(g) == 5:
            return self._same_double(a, g, depth)
        if len(a) != 3 or len(g) != 3:
            return False
        if a[1] == g[1] == "=":
            return self._same_equations(a, g, depth)
        if a[1] not in FLIPPED or g[1] not in FLIPPED:
            return False
        try:
            return same_inequality((a[0], a[1], a[2]), (g[0], g[1], g[2]))
        except (Unreadable, Undefined):
            return False

    def _same_double(self, a: list[str], g: list[str], depth: int) -> bool:
        """``2 < f < 3`` against ``3 > f > 2``."""
        if a[1] not in FLIPPED or a[3] not in FLIPPED:
            return False
        turned = [a[4], FLIPPED[a[3]], a[2], FLIPPED[a[1]], a[0]]
        return any(
            side[1::2] == g[1::2] and all(self.same(x, y, depth + 1) for x, y in zip(side[::2], g[::2], strict=True))
            for side in (a, turned)
        )

    def _same_equations(self, a: list[str], g: list[str], depth: int) -> bool:
        if (
            is_name(a[0])
            and is_name(g[0])
            and not (is_symbol(a[0]) and is_symbol(g[0]) and squash(a[0]) != squash(g[0]))
            and self._same_named(a, g, depth)
        ):
            return True
        try:
            return same_equation((a[0], a[2]), (g[0], g[2]))
        except (Unreadable, Undefined):
            return False

    def _same_named(self, a: list[str], g: list[str], depth: int) -> bool:
        """``f(x) = x^2`` against ``f(t) = t^2``, ``S_{ABC} = 5`` against ``S = 5``: the values decide."""
        ours, theirs = (re.fullmatch(r"([A-Za-z]\w*)\(([a-z])\)", squash(side[0])) for side in (a, g))
        value = a[2]
        if ours and theirs:
            value = re.sub(rf"(?<![A-Za-z\\]){ours[2]}(?![A-Za-z])", theirs[2], value)
        elif (ours or theirs) and not (is_symbol(a[0]) or is_symbol(g[0])):
            return False
        return self.same(value, g[2], depth + 1)

    def _same_one(self, answer: str, gold: str, depth: int) -> bool:
        if squash(answer) == squash(gold):
            return has_a_value(answer)
        structured = self._same_structure(answer, gold, depth)
        if structured is not None:
            return structured
        texts = same_texts(answer, gold)
        return texts if texts is not None else same_single(answer, gold, self._options)

    def _same_structure(self, answer: str, gold: str, depth: int) -> bool | None:
        """Sets, tuples, intervals, matrices; None when neither side is one."""
        cells = matrix(answer), matrix(gold)
        if cells[0] is not None or cells[1] is not None:
            return self._same_matrices(answer, gold, *cells, depth)
        for one, other in ((answer, gold), (gold, answer)):
            if words(one) == "no solution" and braces(other) == ():
                return True
        sets = braces(answer), braces(gold)
        if sets[0] is not None and sets[1] is not None:
            ours, theirs = ([each for element in side for each in signs(element)] for side in sets if side is not None)
            return self._same_collection(ours, theirs, depth)
        rows = row(answer), row(gold)
        if rows[0] is not None and rows[1] is not None:
            return self._same_rows(rows[0], rows[1], depth)
        whole = real_set(answer), real_set(gold)
        if whole[0] is not None and whole[1] is not None:
            return whole[0].same(whole[1])
        if any("\\cup" in side for side in (answer, gold)):
            unions = [re.split(r"\\cup(?![A-Za-z])", side) for side in (answer, gold)]
            return self._same_collection(unions[0], unions[1], depth)
        for side, other, elements in ((answer, gold, sets[0]), (gold, answer, sets[1])):
            if elements is not None and len(elements) == 1 and row(other) is None:  # {5} for the only solution 5
                return self.same(*((elements[0], other) if side is answer else (other, elements[0])), depth + 1)
        return False if any((*sets, *rows)) or any(s is not None for s in sets) else None

    def _same_rows(self, ours: Row, theirs: Row, depth: int) -> bool:
        """A pair may be an interval, whose brackets count; longer rows are the same in any bracket."""
        if len(theirs.items) == 2 and ours.brackets != theirs.brackets:
            return False
        return self._same_sequence(ours.items, theirs.items, depth)

    def _same_matrices(
        self, answer: str, gold: str, ours: list[list[str]] | None, theirs: list[list[str]] | None, depth: int
    ) -> bool:
        if ours is not None and theirs is not None:
            return list(map(len, ours)) == list(map(len, theirs)) and all(
                self._same_sequence(a, g, depth) for a, g in zip(ours, theirs, strict=True)
            )
        vector, other = (ours, row(gold)) if ours is not None else (theirs, row(answer))
        if vector is None or other is None or any(len(line) != 1 for line in vector):
            return False  # only a column is also written as a tuple
        column = [line[0] for line in vector]
        return self._same_sequence(*ordered(column, list(other.items), ours is None), depth)
