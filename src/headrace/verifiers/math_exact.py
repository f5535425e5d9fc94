"""Exact values of formulas made of rational steps. Every step asks first how large its result would be."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from headrace.verifiers.math_node import Node

MAX_BITS = 2_000_000
"""Exact numbers are computed up to this size."""


class TooLarge(Exception):  # noqa: N818
    """Computing it would take for ever."""


class Undefined(Exception):  # noqa: N818
    """It has no value here: a division by zero, a sum up to a half."""


def exact(node: Node) -> Fraction | None:
    """The rational value; None when the formula is not made of rational steps.

    Raises ``Undefined`` for a division by zero, ``TooLarge`` for more than ``MAX_BITS`` bits.
    """
    return _exact(node)


@lru_cache(maxsize=4096)
def _exact(node: Node) -> Fraction | None:
    if node.op == "num":
        return node.value if isinstance(node.value, Fraction) else None
    if node.op not in ("add", "mul", "pow", "fact", "fact2", "abs", "floor", "ceil", "binom", "root"):
        return None
    values = [_exact(argument) for argument in node.args]
    if any(value is None for value in values):
        return None
    return _EXACT[node.op](*values)


def _exact_sum(*values: Fraction) -> Fraction:
    return sum(values, Fraction(0))


def _exact_product(*values: Fraction) -> Fraction:
    if sum(_bits(value) for value in values) > MAX_BITS:
        raise TooLarge
    return math.prod(values, start=Fraction(1))


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return _exact_root(_exact_power(base, Fraction(exponent.numerator)), Fraction(exponent.denominator))
    if base == 0 and exponent < 0:
        raise Undefined
    if base in (0, 1, -1):
        return base ** (exponent.numerator % 2 if base == -1 else min(exponent.numerator, 1) if exponent >= 0 else 1)
    if _bits(base) * abs(exponent.numerator) > MAX_BITS:
        raise TooLarge
    return base**exponent.numerator


def _exact_root(value: Fraction | None, degree: Fraction) -> Fraction | None:
    """The root when it is rational, as of 4/9; None otherwise."""
    if value is None or value < 0 or degree.denominator != 1 or not 1 <= degree <= 100 or _bits(value) > 20_000:
        return None
    parts = [_integer_root(part, degree.numerator) for part in (value.numerator, value.denominator)]
    return None if parts[0] is None or parts[1] is None else Fraction(parts[0], parts[1])


def _integer_root(value: int, degree: int) -> int | None:
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**degree < value else (low, middle)
    return low if low**degree == value else None


def _exact_factorial(value: Fraction) -> Fraction | None:
    if value.denominator != 1 or value < 0:
        raise Undefined
    if value > 100_000:
        raise TooLarge
    return Fraction(math.factorial(value.numerator))


def _exact_double_factorial(value: Fraction) -> Fraction | None:
    if value.denominator != 1 or value < 0:
        raise Undefined
    if value > 20_000:
        raise TooLarge
    return Fraction(math.prod(range(value.numerator, 0, -2)))


def _exact_binomial(n: Fraction, k: Fraction) -> Fraction | None:
    if n.denominator != 1 or k.denominator != 1 or n < 0:
        return None
    if not 0 <= k <= n:
        return Fraction(0)
    if min(k, n - k) * n.numerator.bit_length() > MAX_BITS // 4:
        raise TooLarge
    return Fraction(math.comb(n.numerator, k.numerator))


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


_EXACT: dict[str, Any] = {
    "add": _exact_sum,
    "mul": _exact_product,
    "pow": _exact_power,
    "root": _exact_root,
    "fact": _exact_factorial,
    "fact2": _exact_double_factorial,
    "binom": _exact_binomial,
    "abs": abs,
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
}
