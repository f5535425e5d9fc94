"""Finding the answer in a completion: thinking taken off, the last marker, the last number."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from headrace.verifiers.math_options import AnswerSource, Percent

_MAX_DIGITS = 4000
"""Longer numbers count as unreadable: Python refuses them by default, and no task asks for them."""

_NUMBER = re.compile(
    r"""(?<![A-Za-z_0-9.])
    (?P<sign>(?<![\w)\]}])[-+]\s?)?
    (?:[$€£¥]\s?)?
    (?:(?P<whole>\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?P<decimals>\.\d+)?|(?P<bare>\.\d+))
    (?:[eE](?P<exponent>[-+]?\d+))?
    (?:(?P<mixed>\s\d+)?\s?/\s?(?P<below>\d+)(?!\d*\.\d))?
    (?P<percent>\s?\\?%)?""",
    re.VERBOSE,
)
_MARKER = re.compile(r"\#+[ \t]*(?=[-+$€£¥.]?\s?\d)|\banswer(?:\s+is|\s*[:=])|答案(?:是|为|[:：])", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"[\s*$]*(?:,|;|or\b|and\b|或|和|、)[\s*$]*-?\d", re.IGNORECASE)
_DASHES = str.maketrans({"−": "-", "–": "-", "‒": "-", "﹣": "-"})


def after_thinking(text: str) -> str | None:
    """What stands after the last ``</think>``; the whole text without thinking; None when thinking never ended."""
    tail = text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text
    return None if "<think>" in tail else tail


def answer_text(text: str, source: AnswerSource) -> str | None:
    """Where the answer is looked for: 'after_think' as ``after_thinking`` says, 'anywhere' in the whole text."""
    return text if source == "anywhere" else after_thinking(text)


def after_marker(text: str, marker: str) -> str | None:
    """What stands after the last ``marker``, stripped; None when there is no marker or nothing behind it."""
    _, found, tail = text.rpartition(marker)
    return tail.strip() or None if found else None


def final_number(text: str) -> str | None:
    """The number a reader would take for the answer, as written.

    After the last marker (``#``, ``####`` before a number, "answer is", "answer:") that is the first number, or none
    when alternatives are offered ("is 12 or 13"); without a marker it is the last number of the text.
    """
    text = _plain(text)
    markers = list(_MARKER.finditer(text))
    if markers:
        found = _NUMBER.search(text, markers[-1].end())
        if found is None or _ALTERNATIVE.match(text, found.end()):
            return None
        return found.group().strip()
    numbers = [match.group().strip() for match in _NUMBER.finditer(text)]
    return numbers[-1] if numbers else None


def parse_number(text: str) -> tuple[Fraction, bool] | None:
    """(exact value, written with a percent sign) of one number such as ``1,234.5``, ``2/3``, ``7 2/5``, ``1e3``.

    None for anything else, for a zero denominator, and for more than 4000 digits.
    """
    match = _NUMBER.fullmatch(_plain(text).strip().rstrip("."))
    if match is None or len(match.group()) > _MAX_DIGITS or abs(int(match["exponent"] or 0)) > _MAX_DIGITS:
        return None
    value = Fraction((match["whole"] or "0").replace(",", "") + (match["decimals"] or match["bare"] or ""))
    value *= Fraction(10) ** int(match["exponent"] or 0)
    if match["below"] is not None:
        if int(match["below"]) == 0:
            return None
        value = (
            value / int(match["below"])
            if match["mixed"] is None
            else value + Fraction(int(match["mixed"]), int(match["below"]))
        )
    negative = (match["sign"] or "").startswith("-")
    return -value if negative else value, match["percent"] is not None


def as_gold(answer: tuple[Fraction, bool], gold: tuple[Fraction, bool], percent: Percent) -> list[Fraction]:
    """The values an answer may stand for beside a gold; both come as (value, written with a percent sign).

    With a percent sign on one side only, 'same_number' reads 35 % as 35 and as 0.35, 'hundredth' as 0.35 alone.
    """
    (a, a_percent), (_, g_percent) = answer, gold
    if a_percent == g_percent:
        return [a]
    scaled = a / 100 if a_percent else a * 100
    return [scaled, a] if percent == "same_number" else [scaled]


def same_number(answer: tuple[Fraction, bool], gold: tuple[Fraction, bool], percent: Percent = "same_number") -> bool:
    """Exact equality of two numbers, percent signs read as ``as_gold`` says."""
    return gold[0] in as_gold(answer, gold, percent)


def _plain(text: str) -> str:
    """Full-width digits and the many dashes in their plain form."""
    return unicodedata.normalize("NFKC", text).translate(_DASHES)
