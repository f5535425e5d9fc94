"""What settles the cases that honest graders judge differently: tolerance, rounding, percent signs, thinking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

Percent = Literal["same_number", "hundredth"]
AnswerSource = Literal["after_think", "anywhere"]

KEYS = ("tolerance", "rounding_digits", "percent", "answer_source")


@dataclass(frozen=True, slots=True)
class MathOptions:
    """``tolerance``: what a number may be off by, '10%' of the gold's size or an absolute number, edges included.

    ``rounding_digits``: a decimal answer may be the gold rounded to this many decimals or more (2/7 is .285714, not
    .29). ``percent``: 'same_number' takes 35% for 35 and for 0.35, 'hundredth' for 0.35 alone. ``answer_source``:
    'after_think' does not look into the thinking, 'anywhere' does.
    """

    tolerance: str | None = None
    rounding_digits: int = 6
    percent: Percent = "same_number"
    answer_source: AnswerSource = "after_think"

    def within(self, answer: Fraction, gold: Fraction) -> bool:
        """Whether ``tolerance`` lets the answer pass; the gold alone sets the size."""
        if self.tolerance is None:
            return False
        text = self.tolerance.strip()
        limit = Fraction(text.rstrip("% ")) * abs(gold) / 100 if text.endswith("%") else Fraction(text)
        return abs(answer - gold) <= limit

    def for_row(self, row: Mapping[str, Any]) -> MathOptions:
        """These options with a row's own fields over them. Raises ``ValueError`` naming a field that cannot be used."""
        own = {key: row[key] for key in KEYS if row.get(key) is not None}
        return replace(self, **_checked(own)) if own else self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MathOptions:
        """Options from names and values. Raises ``ValueError`` naming what cannot be used."""
        unknown = sorted(set(values) - set(KEYS))
        if unknown:
            raise ValueError(f"unknown option '{unknown[0]}'; allowed: {', '.join(KEYS)}")
        return cls(**_checked(values))


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    checked = dict(values)
    if checked.get("tolerance") is not None:
        checked["tolerance"] = _tolerance(checked["tolerance"])
    digits = checked.get("rounding_digits", 0)
    if not isinstance(digits, int) or isinstance(digits, bool) or not 0 <= digits <= 30:
        raise ValueError(f"rounding_digits: found {digits!r}; allowed: a whole number from 0 to 30")
    for key, allowed in (("percent", get_args(Percent)), ("answer_source", get_args(AnswerSource))):
        if key in checked and checked[key] not in allowed:
            raise ValueError(f"{key}: found {checked[key]!r}; allowed: {', '.join(allowed)}")
    return checked


def _tolerance(value: Any) -> str:
    text = str(value).strip()
    try:
        size = Fraction(text.rstrip("% ") if text.endswith("%") else text)
        if isinstance(value, bool) or size < 0 or len(text) > 40:
            raise ValueError
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f"tolerance: found {value!r}; allowed: a number such as 0.01, or a share such as '10%'"
        ) from None
    return text
