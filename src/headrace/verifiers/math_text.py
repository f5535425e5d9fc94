"""Spelling of mathematical answers: one form for the many ways to write the same thing."""

from __future__ import annotations

import re
import unicodedata

_TEXT = re.compile(r"\\(?:text|mathrm|textbf|mathbf|operatorname|mbox)\s*\{([^{}]*)\}")
_SPACES = re.compile(r"\\[,;:! ]|\\q?quad\b|~")
_SIZES = re.compile(r"\\(?:left|right|bigl?|bigr?|Bigl?|Bigr?|displaystyle|limits)(?![A-Za-z])")
_COUNTERS = re.compile(r"(?<=\d)\s*[个只种条次人元名张本件位天年岁]$")
_DOLLAR = re.compile(r"\\?\$")
_LEAD = re.compile(r"^[A-Za-z\\]\w*(?:\([a-z]\))?\s*=\s*(?=[^=])")
_PLAIN_FUNCTION = re.compile(r"(?<![\\A-Za-z])(exp|sqrt)\(([^()]*)\)")


def normalise(text: str) -> str:
    """LaTeX without what carries no meaning: sizes, thin spaces, dollar signs, a full stop at the end."""
    text = unicodedata.normalize("NFKC", text.replace("°", "^\\circ "))
    text = text.replace("−", "-").replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = _DOLLAR.sub("", text)
    text = _SIZES.sub("", _SPACES.sub(" ", text.replace("\\!", ""))).strip()
    text = _COUNTERS.sub("", text)
    text = _PLAIN_FUNCTION.sub(lambda m: f"e^{{{m[2]}}}" if m[1] == "exp" else f"\\sqrt{{{m[2]}}}", text)
    text = re.sub(r"\+\s*-", "-", text)
    text = re.sub(r"(?<=\d)\.0+(?!\d)", "", text)
    return text.rstrip(".").strip()


def words(text: str) -> str | None:
    """The bare words of an answer that is a text ('\\text{Harriet}', 'C'), in lower case; None for formulas."""
    bare = re.sub(r"[\s()]+", " ", _TEXT.sub(r"\1", text)).strip(" .,").casefold()
    return bare if bare and re.fullmatch(r"[^\W\d_]+(?:[ '-][^\W\d_]+)*", bare) else None


def unit(text: str) -> str:
    """What is written as a unit behind a number (``\\text{ cm}^2`` -> ``cm^2``), '' without one."""
    match = re.fullmatch(r"[-+\d.,/\s]+\\(?:text|mathrm)\s*\{([^{}]*)\}\s*(\^\{?\d+\}?)?", text)
    return (match[1].strip() + (match[2] or "").replace("{", "").replace("}", "")) if match else ""


def without_unit(text: str) -> str:
    """The text without a unit behind its number."""
    return re.sub(r"(?<=[\d\s.}])\\(?:text|mathrm)\s*\{[^{}]*\}\s*(?:\^\{?\d+\}?)?$", "", text).strip()


def without_name(text: str) -> str:
    """``x = 9`` -> ``9``, ``D = (0, 4)`` -> ``(0, 4)``; equations with more on the left stay."""
    text = re.sub(r"^\\angle\s*[A-Z]+\s*=", "", text).strip()
    stripped = _LEAD.sub("", text, count=1)
    return stripped if "=" not in stripped and not re.match(r"^[a-z]\(", text) else text
