"""Mathematical answers through math-verify: the extraction and the comparison of numbers are ours, exact.

Nothing limits the time here: some expressions would take for ever, and the pool ends the process from outside.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sympy
from math_verify import LatexExtractionConfig, parse, verify

from headrace.records import Verdict
from headrace.verifiers.answer import after_thinking, parse_number, same_number
from headrace.verifiers.math_answer import extract
from headrace.verifiers.math_text import normalise, unit, without_name, without_unit, words

ROUNDING_DIGITS = 6
"""A decimal answer may be the gold rounded to this many decimals or more; .29 is not 2/7."""

MAX_CHARACTERS = 10_000
_RELATIVE = 1e-12
_LONG_DIGITS = re.compile(r"\d{4001}")
_MIXED = re.compile(r"^-?\d+\s*\\frac|^-?\d+\s+\d+/\d+$")
_CONFIG = [LatexExtractionConfig(boxed_match_priority=-1)]

for _name in ("math_verify.parser", "math_verify.grader"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # they warn that time-outs are off, which they are on purpose


class MathVerifier:
    """Reward 1 when the final answer and the gold are mathematically the same, else 0 with a reason."""

    name = "math"

    def __init__(self, answer_column: str = "answer") -> None:
        self._answer_column = answer_column

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        gold_text = str(row[self._answer_column])
        gold = extract(gold_text).answer if "\\boxed" in gold_text else gold_text
        if gold is None or not gold.strip():
            return Verdict(reward=None, error=f"the gold answer {gold_text[:80]!r} is empty")
        text = after_thinking(completion)
        if text is None:
            return Verdict(reward=0.0, reason="thinking never ended")
        found = extract(text)
        if found.answer is None:
            return Verdict(reward=0.0, reason=found.reason)
        right = same_answer(found.answer, gold)
        reason = "" if right else "another answer"
        return Verdict(reward=float(right), passed=right, reason=reason, answer=found.answer[:200])


def same_answer(answer: str, gold: str) -> bool:
    """Whether two answers mean the same: as numbers, as words, or as what math-verify parses them to."""
    answer, gold = normalise(answer), normalise(gold)
    if answer == gold:
        return True
    if len(answer) > MAX_CHARACTERS or _LONG_DIGITS.search(answer) or "__" in answer:
        return False
    if unit(answer) and unit(gold) and unit(answer) != unit(gold):
        return False
    answer, gold = without_unit(answer), without_unit(gold)
    if words(gold) or words(answer):
        return words(gold) == words(answer)
    answer, gold = (without_name(answer), without_name(gold)) if _is_value(gold) else (answer, gold)
    numbers = parse_number(answer), parse_number(gold)
    if numbers[0] is not None and numbers[1] is not None:
        return same_number(numbers[0], numbers[1]) or _rounded(answer, sympy.Rational(numbers[1][0]))
    if ":" in gold or ":" in answer:  # clock times and ratios are written, not computed
        return answer.replace(" ", "") == gold.replace(" ", "")
    return _same_formula(answer, gold)


def _same_formula(answer: str, gold: str) -> bool:
    ours, theirs = _parsed(answer), _parsed(gold)
    if ours is None or theirs is None:
        return answer.replace(" ", "") == gold.replace(" ", "")
    if _is_number(ours) and _is_number(theirs):
        return _close(ours, theirs) or _rounded(answer, theirs)
    return bool(
        verify(theirs, ours, float_rounding=ROUNDING_DIGITS, allow_set_relation_comp=True, timeout_seconds=None)
    )


def _parsed(text: str) -> Any:
    """The sympy value of a LaTeX text; None when math-verify cannot read it all."""
    if re.search(r"\\sqrt\s*\(", text) or (_MIXED.match(text) and "{0}" in text):
        return None  # it would read what stands before and drop the rest
    return _parse_cached(text)


@lru_cache(maxsize=4096)
def _parse_cached(text: str) -> Any:
    found = parse(f"${text}$", extraction_config=_CONFIG, fallback_mode="no_fallback", parsing_timeout=None)
    return _with_imaginary_unit(found[0]) if found else None


def _with_imaginary_unit(value: Any) -> Any:
    """``9 - i`` as a complex number: the parser reads i as a symbol. Beside other symbols it may be an index."""
    if isinstance(value, sympy.Expr) and {symbol.name for symbol in value.free_symbols} == {"i"}:
        return value.subs(dict.fromkeys(value.free_symbols, sympy.I))
    return value


def _is_value(text: str) -> bool:
    """Whether a gold is a value (perhaps named, ``D = (0, 4)``) rather than an equation to be matched as one."""
    return "=" not in without_name(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, sympy.Expr) and not isinstance(value, sympy.MatrixBase) and bool(value.is_number)


def _close(ours: Any, theirs: Any) -> bool:
    """Equal to twelve digits of the gold: exact for rationals, and 10^-9 is never 0."""
    if ours.is_Rational and theirs.is_Rational:
        return bool(ours == theirs)
    difference, size = abs(sympy.N(ours - theirs, 30)), abs(sympy.N(theirs, 30))
    return bool(difference <= _RELATIVE * size)


def _rounded(answer: str, gold: Any) -> bool:
    match = re.fullmatch(r"-?\d*\.(\d+)", answer.replace(" ", ""))
    if match is None or len(match[1]) < ROUNDING_DIGITS:
        return False
    unit_size = sympy.Rational(1, 10 ** len(match[1]))
    return bool(abs(sympy.Rational(answer.replace(" ", "")) - gold) <= unit_size / 2)
