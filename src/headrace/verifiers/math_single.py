"""One value against another: a number, an expression, perhaps with a unit."""

from __future__ import annotations

from fractions import Fraction

from headrace.verifiers.math_exact import Undefined
from headrace.verifiers.math_fallback import same_by_math_verify
from headrace.verifiers.math_forms import ungrouped
from headrace.verifiers.math_formula import numeric, same_formula
from headrace.verifiers.math_node import TooDeep, Unreadable
from headrace.verifiers.math_options import MathOptions
from headrace.verifiers.math_special import BASED, same_in_base
from headrace.verifiers.math_text import squash
from headrace.verifiers.math_units import Unit, factor, measured
from headrace.verifiers.math_words import spelled_number


def same_single(answer: str, gold: str, options: MathOptions) -> bool:
    """Whether two values are the same once units, money and percent signs are accounted for."""
    spelled = [spelled_number(side) or side for side in (answer, gold)]
    answer, gold = spelled
    theirs = measured(gold)
    ours = measured(answer, single_letters=numeric(theirs.value) is not None)
    if ours.unit.known and not theirs.unit.known:
        theirs = measured(gold, single_letters=numeric(ours.value) is not None)
    scale: Fraction | str | None = factor(ours.unit, theirs.unit) or _angle(ours.unit, theirs.unit)
    if scale is None:
        return False
    angles = (ours.unit.name, theirs.unit.name)
    if (
        scale == 1
        and "degree" in angles
        and "" in angles
        and "\\pi" in (ours.value if angles[0] == "" else theirs.value)
    ):
        scale = "\\cdot\\frac{180}{\\pi}" if angles[0] == "" else "\\cdot\\frac{\\pi}{180}"
    values = [spelled_number(side.value) or ungrouped(side.value) for side in (ours, theirs)]
    if ours.percent == theirs.percent:
        return _same_value(options, values[0], values[1], scale)
    scales = (Fraction(1), Fraction(1, 100)) if options.percent == "same_number" else (Fraction(1, 100),)
    return any(_same_value(options, values[0], values[1], each if ours.percent else 1 / each) for each in scales)


def _same_value(options: MathOptions, answer: str, gold: str, scale: Fraction | str) -> bool:
    if isinstance(scale, str):
        answer, scale = f"({answer}){scale}", Fraction(1)
    based = [BASED.fullmatch(squash(side)) for side in (answer, gold)]
    if any(based):
        return same_in_base(answer, gold, based)
    try:
        return same_formula(answer, gold, options, scale)
    except TooDeep:
        raise
    except (Unreadable, Undefined):
        return same_by_math_verify(answer, gold) if scale == 1 else False


def _angle(ours: Unit, theirs: Unit) -> str | None:
    """How degrees become radians and back."""
    names = ours.name, theirs.name
    return {("degree", "rad"): "\\cdot\\frac{\\pi}{180}", ("rad", "degree"): "\\cdot\\frac{180}{\\pi}"}.get(names)
