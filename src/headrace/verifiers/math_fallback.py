"""math-verify for what our own reader does not know: integrals, limits, unusual notation.

Its parser takes a tenth of a second for each bracket level and for ever on some short texts, and sympy may compute
without end. So little is let through, and what is let through is ended from outside by the pool.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

_MAX_CHARACTERS = 120
_MAX_NESTING = 3
_COMMANDS = frozenset(
    re.findall(
        r"\w+",
        "frac sqrt int sum prod lim to infty pi cdot sin cos tan ln log exp binom text mathbb alpha beta gamma theta "
        "lambda mu sigma omega phi varphi left right partial oint iint cup cap in setminus",
    )
)
_CODE = re.compile(
    r"__|(?<!\\)\blambda\b[\s\w,]*:|\bimport\b|\b(?:eval|exec|compile|open|getattr|setattr|globals|locals)\s*\(|\b(?:os|sys)\."
)
_NO_FORMULA = re.compile(r"['\"`;@#&]|\\begin")


def looks_like_code(text: str) -> bool:
    """Whether a text has the shape of a program; such a text is given to no parser at all."""
    return _CODE.search(text) is not None


def same_by_math_verify(answer: str, gold: str) -> bool:
    """math-verify's verdict on two formulas; False for what is too large or too strange to be given to it."""
    if not (_harmless(answer) and _harmless(gold)):
        return False
    ours, theirs = _parsed(answer), _parsed(gold)
    if ours is None or theirs is None:
        return False
    from math_verify import verify

    return bool(verify(theirs, ours, timeout_seconds=None))


def _harmless(text: str) -> bool:
    depth = deepest = 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        deepest = max(deepest, depth)
    return (
        len(text) <= _MAX_CHARACTERS
        and deepest <= _MAX_NESTING
        and not looks_like_code(text)
        and not _NO_FORMULA.search(text)
        and not re.search(r"\d{12}|[!^]\s*\{?\s*\d{4}|\^.*\^.*\^", text)
        and set(re.findall(r"\\([A-Za-z]+)", text)) <= _COMMANDS
    )


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    from latex2sympy2_extended import latex2sympy

    logging.getLogger("math_verify.grader").setLevel(logging.ERROR)  # it warns that its time-outs are off: on purpose
    try:
        return latex2sympy(text, is_real=True, normalization_config=None)
    except Exception:
        return None
