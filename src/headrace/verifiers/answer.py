"""Finding the answer in a completion: thinking taken off, the last marker, the last number."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

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
    _, closed, tail = text.rpartition("</think>")
    if closed:
        return tail
    return None if "<think>" in text else text


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


def same_number(answer: tuple[Fraction, bool], gold: tuple[Fraction, bool]) -> bool:
    """Exact equality; a percentage equals the same number without the sign, and its hundredth (35 % = 35 = 0.35)."""
    (a, a_percent), (g, g_percent) = answer, gold
    if a_percent == g_percent:
        return a == g
    return a == g or (a / 100 == g if a_percent else g / 100 == a)


def _plain(text: str) -> str:
    """Full-width digits and the many dashes in their plain form."""
    return unicodedata.normalize("NFKC", text).translate(_DASHES)
