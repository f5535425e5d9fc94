"""Answers that are written rather than computed: times, dates, choices, ratios, words, numbers in another base."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from headrace.verifiers.math_shape import bare, braces
from headrace.verifiers.math_text import squash
from headrace.verifiers.math_units import measured
from headrace.verifiers.math_words import choice, clock, date, same_clock, same_date, spelled_number, words

Same = Callable[[str, str], bool]

BASED = re.compile(r"[({]?([0-9A-Fa-f]+)[)}]?_\{?(?:\\text\{)?(\w+)\}*")
_BASES = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9"}


def same_special(answer: str, gold: str, same: Same) -> bool | None:
    """Clock times, dates, ratios and choices, which are written with signs that mean something else elsewhere."""
    if words(gold) in ("yes", "no"):
        return words(answer) == words(gold)
    dates = date(answer), date(gold)
    if dates[1] is not None:
        return dates[0] is not None and same_date(dates[0], dates[1])
    times = clock(answer), clock(gold)
    if times[1] is not None and (times[0] is not None or ":" in answer):
        return times[0] is not None and same_clock(times[0], times[1])
    ours, theirs = choice(answer), choice(gold)
    if theirs is not None and ours is not None and len(bare(gold)) <= 60:
        if ours[1] and theirs[1] and not re.match(r"[-+^_=*/<>,(\\]", theirs[1]):
            return ours[0] == theirs[0]
        if not theirs[1] and (not ours[1] or re.match(r"(?:\\text)?[{ ]*\(", answer) or re.match(r"\w[).:]", answer)):
            return ours[0] == theirs[0]
    if ours is not None and theirs is None and ours[1] and re.search(r"\(?[A-Ja-j]\s*[).:]", answer):
        label = re.sub(r"^.*?[A-Ja-j]\s*[).:]+\s*\}?\s*", "", answer, count=1)
        if (
            label != answer
            and not re.match(r"[-+^_=*/<>]", label)
            and re.match(r"^(?:\\text\{)?\s*\(?[A-J]\s*[).]", answer)
        ):
            return same(label, gold)
    return _same_ratio(answer, gold, same)


def _same_ratio(answer: str, gold: str, same: Same) -> bool | None:
    """``2:3`` against ``4:6`` or 2/3; None when neither side is a ratio."""
    ours, theirs = ([part.strip() for part in side.split(":")] for side in (answer, gold))
    if "=" in answer or "=" in gold or (len(theirs) == 1 and len(ours) == 1) or "\\{" in answer + gold:
        return None
    if not all(re.fullmatch(r"[-\d.\\a-z{}A-Z/^ ]+", part) for part in (*ours, *theirs)):
        return None
    if len(ours) == 1 or len(theirs) == 1:
        whole, single = (ours, theirs[0]) if len(theirs) == 1 else (theirs, ours[0])
        return len(whole) == 2 and same(f"\\frac{{{whole[0]}}}{{{whole[1]}}}", single)
    return len(ours) == len(theirs) and all(
        same(f"({a})({theirs[0]})", f"({g})({ours[0]})") for a, g in zip(ours[1:], theirs[1:], strict=True)
    )


def same_texts(answer: str, gold: str) -> bool | None:
    """Whether two answers in words are the same; None when neither is one, or words stand around a number."""
    ours, theirs = words(answer), words(gold)
    if theirs is None:
        if ours is None or _counts(answer):
            return None
        return _empty(ours, gold) or ours == _loosely(gold)
    if ours == theirs:
        return True
    if _counts(gold):
        return None
    if ours is None:
        return _empty(theirs, answer) or theirs == _loosely(answer)
    return ours.replace(" ", "").replace("-", "") == theirs.replace(" ", "").replace("-", "")


def _loosely(text: str) -> str | None:
    """The words of a text even where they might be symbols: ``odd`` as ``\\text{odd}``."""
    return words("\\text{" + re.sub(r"[{}]", "", text) + "}")


def _counts(text: str) -> bool:
    """Whether words stand around a number: a unit, a percentage, ``5 million``."""
    return spelled_number(text) is not None or measured(text).value != text.strip()


def _empty(word: str, other: str) -> bool:
    return word == "no solution" and braces(other) == ()


def same_in_base(answer: str, gold: str, based: Sequence[re.Match[str] | None]) -> bool:
    digits = [match[1] if match else squash(bare(side)) for match, side in zip(based, (answer, gold), strict=True)]
    bases = {_BASES.get(match[2], match[2]) for match in based if match}
    return len(bases) == 1 and digits[0].lstrip("0").casefold() == digits[1].lstrip("0").casefold()
