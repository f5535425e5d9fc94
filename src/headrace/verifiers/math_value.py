"""The value of a formula to 60 digits, at a point where it has symbols.

Every step asks first how large the result would be, so that a tower of powers costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import mpmath

from headrace.verifiers.math_exact import TooLarge, Undefined
from headrace.verifiers.math_node import Node

DIGITS = 60
_MAX_LOG2 = 1e9
"""Rounded numbers are computed up to two to this power."""

_MAX_STEPS = 20_000
_MAX_TERMS = 500

context = mpmath.mp.clone()
context.dps = DIGITS

Value = Any  # an mpf or mpc of ``context``


def symbols(node: Node) -> frozenset[str]:
    """The names of a formula's symbols; the running variable of a sum is none."""
    return _symbols(node)


@lru_cache(maxsize=8192)
def _symbols(node: Node) -> frozenset[str]:
    found = frozenset((str(node.value),)) if node.op == "sym" else frozenset()
    inner = frozenset().union(*(_symbols(argument) for argument in node.args))
    return found | (inner - {str(node.value)} if node.op in ("sum", "prod") else inner)


def is_complex(node: Node) -> bool:
    """Whether the imaginary unit occurs."""
    return (node.op == "const" and node.value == "i") or any(is_complex(argument) for argument in node.args)


class Evaluator:
    """Values at a point. ``log_base`` is what ``\\log`` without a base means."""

    def __init__(self, point: Mapping[str, Value], log_base: int | None = None) -> None:
        self._point = dict(point)
        self._log_base = log_base
        self._steps = 0

    def __call__(self, node: Node) -> Value:
        """Raises ``Undefined`` or ``TooLarge``."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise TooLarge
        try:
            value = self._value(node)
        except (ZeroDivisionError, ValueError, TypeError, OverflowError, mpmath.libmp.ComplexResult):
            raise Undefined from None
        if not context.isfinite(value) and not (node.op in ("const", "mul") and context.isinf(value)):
            raise Undefined
        return value

    def _value(self, node: Node) -> Value:
        if node.op == "num":
            fraction = node.value
            assert isinstance(fraction, Fraction)
            return context.mpf(fraction.numerator) / fraction.denominator
        if node.op == "sym":
            return self._point[str(node.value)]
        if node.op == "const":
            return _CONSTANT[str(node.value)]()
        if node.op in ("sum", "prod"):
            return self._series(node)
        values = [self(argument) for argument in node.args]
        if node.op == "call":
            return self._call(str(node.value), values)
        return _ROUNDED[node.op](*values)

    def _series(self, node: Node) -> Value:
        low, high = (self(argument) for argument in node.args[:2])
        if not all(context.isint(bound) for bound in (low, high)):
            raise Undefined
        if abs(high - low) > _MAX_TERMS:
            raise TooLarge
        name = str(node.value)
        kept, result = self._point.get(name), context.mpf(node.op == "prod")
        for k in range(int(low), int(high) + 1):
            self._point[name] = context.mpf(k)
            term = self(node.args[2])
            result = result + term if node.op == "sum" else result * term
        self._point.pop(name)
        if kept is not None:
            self._point[name] = kept
        return result

    def _call(self, name: str, values: list[Value]) -> Value:
        if name == "\\log" and len(values) == 1:
            return context.log(values[0]) / (1 if self._log_base is None else context.log(self._log_base))
        known = _CALLED.get(name)
        if known is not None:
            if name not in ("\\ln", "\\log", "\\max", "\\min") and any(abs(value) > _MAX_LOG2 for value in values):
                raise TooLarge
            return known(*values)
        return _made_up(name, values)


def _made_up(name: str, values: list[Value]) -> Value:
    """Some smooth function of that name, the same one on both sides of a comparison."""
    seed = int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") / 2**32
    return sum((context.sin((1 + seed + i) * value) + seed * value for i, value in enumerate(values)), context.mpf(2))


def _power(base: Value, exponent: Value) -> Value:
    if base == 0:
        if context.re(exponent) <= 0 and exponent != 0:
            raise Undefined
        return context.mpf(exponent == 0)
    if abs(context.log(abs(base), 2)) * abs(exponent) > _MAX_LOG2:
        raise TooLarge
    return context.power(base, exponent)


def _root(value: Value, degree: Value) -> Value:
    if context.isint(degree) and degree % 2 == 1 and context.im(value) == 0 and context.re(value) < 0:
        return -_power(-value, 1 / degree)  # the real cube root of -8
    return _power(value, 1 / degree)


def _factorial(value: Value) -> Value:
    if abs(value) > 1e7:
        raise TooLarge
    return context.factorial(value)


def _double_factorial(value: Value) -> Value:
    if abs(value) > 1e7:
        raise TooLarge
    return context.fac2(value)


def _binomial(n: Value, k: Value) -> Value:
    if max(abs(n), abs(k)) > 1e7:
        raise TooLarge
    return context.binomial(n, k)


def _product(*values: Value) -> Value:
    result = context.mpf(1)
    for value in values:
        result *= value
    return result


def _of_integers(function: Any) -> Any:
    def wrapped(*values: Value) -> Value:
        if not all(context.isint(value) and abs(value) < 1e30 for value in values):
            raise Undefined
        return context.mpf(function(*(int(value) for value in values)))

    return wrapped


_CONSTANT = {
    "pi": lambda: +context.pi,
    "e": lambda: +context.e,
    "i": lambda: context.mpc(0, 1),
    "infty": lambda: context.inf,
    "degree": lambda: +context.degree,
}
_ROUNDED: dict[str, Any] = {
    "add": lambda *values: sum(values, context.mpf(0)),
    "mul": _product,
    "pow": _power,
    "root": _root,
    "fact": _factorial,
    "fact2": _double_factorial,
    "binom": _binomial,
    "abs": abs,
    "floor": context.floor,
    "ceil": context.ceil,
}
_CALLED: dict[str, Any] = {
    **{
        f"\\{name}": getattr(context, name)
        for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
    },
    **{f"\\arc{name}": getattr(context, "a" + name) for name in ("sin", "cos", "tan")},
    **{"\\ln": context.log, "\\log": context.log, "\\exp": context.exp, "\\Re": context.re, "\\Im": context.im},
    **{
        "\\arg": context.arg,
        "\\max": max,
        "\\min": min,
        "\\gcd": _of_integers(math.gcd),
        "\\lcm": _of_integers(math.lcm),
    },
    "\\Gamma": lambda value: _factorial(value - 1),
}
