"""Whether two formulas are the same: numbers exactly, expressions at sample points, equations by what solves them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from headrace.verifiers.math_exact import TooLarge, Undefined, exact
from headrace.verifiers.math_node import Node, Unreadable, negative
from headrace.verifiers.math_options import MathOptions
from headrace.verifiers.math_syntax import read
from headrace.verifiers.math_value import Evaluator, context, is_complex, symbols

_CLOSE = context.mpf(10) ** -35
_FLOOR = context.mpf(10) ** -8
_ENOUGH = 4  # sample points at which both sides must have been compared
_DECIMAL = re.compile(r"(-?)(\d*)\.(\d+)(?:\\cdot 10\^\{(-?\d{1,4})\}|[eE]([-+]?\d{1,4}))?")
_LOGARITHMS = (10, None)
_MAX_SYMBOLS = 30


def same_formula(answer: str, gold: str, options: MathOptions, scale: Fraction = Fraction(1)) -> bool:
    """Whether ``scale`` x answer is the gold. Raises ``Unreadable`` or ``TooLarge``."""
    ours, theirs = read(answer), read(gold)
    if scale != 1:
        ours = Node("mul", (Node("num", (), scale), ours))
    if ours == theirs:
        return _defined(theirs)
    ours = _in_the_same_case(ours, theirs)
    if symbols(ours) or symbols(theirs):
        return _same_function(ours, theirs)
    return _same_number(ours, theirs, (answer, gold), options, scale)


def same_equation(answer: tuple[str, str], gold: tuple[str, str]) -> bool:
    """Whether two equations (left, right) have the same solutions: proportional, or with the same zeros."""
    theirs = _difference(gold)
    ours = _in_the_same_case(_difference(answer), theirs)
    if not symbols(ours) or symbols(ours) != symbols(theirs):
        return False
    return _ratio(ours, theirs) is not None or _same_zeros(ours, theirs)


def same_inequality(answer: tuple[str, str, str], gold: tuple[str, str, str]) -> bool:
    """Whether two inequalities (left, relation, right) say the same, up to a factor: ``-x>-1`` and ``x<1``."""
    (a_left, a_sign, a_right), (g_left, g_sign, g_right) = answer, gold
    theirs = _difference((g_left, g_right))
    ours = _in_the_same_case(_difference((a_left, a_right)), theirs)
    if not symbols(ours) or symbols(ours) != symbols(theirs):
        return False
    ratio = _ratio(ours, theirs)
    if ratio is None or context.im(ratio) != 0:
        return False
    return a_sign == (g_sign if ratio > 0 or g_sign == "\\ne" else FLIPPED[g_sign])


FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne"}


def numeric(text: str) -> Any:
    """The value of a constant formula (an ``mpf``, perhaps infinite), or None for anything else."""
    try:
        node = read(text)
        value = None if symbols(node) else Evaluator({})(node)
    except (TooLarge, Undefined, Unreadable):
        return None
    return context.re(value) if value is not None and context.im(value) == 0 else None


def close(a: Any, b: Any) -> bool:
    """Equal to 35 digits."""
    if context.isinf(a) or context.isinf(b):
        return bool(a == b)
    return bool(abs(a - b) <= _CLOSE * max(abs(a), abs(b)))


def _defined(node: Node) -> bool:
    if symbols(node):
        return True
    try:
        return exact(node) is not None or Evaluator({})(node) is not None
    except Undefined:
        return False
    except TooLarge:
        return True


def _same_number(ours: Node, theirs: Node, texts: tuple[str, str], options: MathOptions, scale: Fraction) -> bool:
    try:
        a, g = exact(ours), exact(theirs)
    except Undefined:
        return False
    if a is not None and g is not None:
        return a == g or _nearly(a, g, texts, options, scale)
    for base in _LOGARITHMS:
        try:
            x, y = Evaluator({}, base)(ours), Evaluator({}, base)(theirs)
        except Undefined:
            return False
        if close(x, y):
            return True
    if context.im(x) != 0 or context.im(y) != 0 or context.isinf(x) or context.isinf(y):
        return False
    return _nearly(_fraction(x) if a is None else a, _fraction(y) if g is None else g, texts, options, scale)


def _nearly(a: Fraction, g: Fraction, texts: tuple[str, str], options: MathOptions, scale: Fraction) -> bool:
    return options.within(a, g) or _rounded(texts[0], a, g, options, scale) or _rounded(texts[1], g, a, options)


def _fraction(value: Any) -> Fraction:
    sign, man, exp, _ = context.mpf(context.re(value))._mpf_
    if abs(exp) > 40_000:
        raise TooLarge
    return Fraction((-1) ** sign * int(man)) * Fraction(2) ** exp


def _rounded(text: str, value: Fraction, other: Fraction, options: MathOptions, scale: Fraction = Fraction(1)) -> bool:
    """Whether ``text`` is a decimal that ``other`` gives when it is rounded (or cut, beyond ``rounding_digits``)."""
    found = _DECIMAL.fullmatch(text.strip())
    if found is None or value == 0 or len(found[3]) < max(1, options.rounding_digits):
        return False
    unit = Fraction(10) ** (int(found[4] or found[5] or 0) - len(found[3])) * abs(scale)
    off = abs(value - other)
    spare = len(found[3]) > options.rounding_digits
    return off <= unit / 2 or (spare and off < unit) or (len(found[3]) >= 12 and off <= abs(other) / 10**14)


def _difference(sides: tuple[str, str]) -> Node:
    return Node("add", (read(sides[0]), negative(read(sides[1]))))


def _in_the_same_case(ours: Node, theirs: Node) -> Node:
    """Names in the gold's case where that alone differs: ``X`` for ``x``."""
    mine, wanted = symbols(ours), symbols(theirs)
    renamed = {}
    for name in mine - wanted:
        same = [other for other in wanted - mine if other.casefold() == name.casefold()]
        if len(same) == 1:
            renamed[name] = same[0]
    return _renamed(ours, renamed) if renamed else ours


def _renamed(node: Node, names: dict[str, str]) -> Node:
    if node.op == "sym":
        return Node("sym", (), names.get(str(node.value), node.value))
    return Node(node.op, tuple(_renamed(argument, names) for argument in node.args), node.value)


def _same_function(ours: Node, theirs: Node) -> bool:
    """Equal wherever both have a value, at real points of either sign, at positive ones, at whole numbers."""
    names = symbols(ours) | symbols(theirs)
    if len(names) > _MAX_SYMBOLS:
        raise TooLarge
    return any(_agree(ours, theirs, names, base) for base in _bases(ours, theirs))


def _bases(*nodes: Node) -> tuple[int | None, ...]:
    return _LOGARITHMS if any("\\log" in repr(node) for node in nodes) else (None,)


def _agree(ours: Node, theirs: Node, names: frozenset[str], base: int | None) -> bool:
    whole = is_complex(ours) or is_complex(theirs)
    compared = 0
    for points in _POINTS:
        for point in points(sorted(names)):
            pair = _values((ours, theirs), point, base, complex_too=whole)
            if pair is None:
                continue
            compared += 1
            if abs(pair[0] - pair[1]) > _CLOSE * max(abs(pair[0]), abs(pair[1]), _FLOOR):
                return False
        if compared >= _ENOUGH:
            return True
    return False


def _values(nodes: tuple[Node, Node], point: dict[str, Any], base: int | None, *, complex_too: bool) -> Any:
    try:
        values = tuple(Evaluator(point, base)(node) for node in nodes)
    except Undefined:
        return None
    if any(context.isinf(value) for value in values):
        return None
    return values if complex_too or all(context.im(value) == 0 for value in values) else None


def _real(low: int, high: int, count: int) -> Callable[[list[str]], Iterator[dict[str, Any]]]:
    def points(names: list[str]) -> Iterator[dict[str, Any]]:
        rng = random.Random(20)
        for _ in range(count):
            yield {name: context.mpf(rng.randrange(low, high)) / 1009 for name in names}

    return points


def _whole(names: list[str]) -> Iterator[dict[str, Any]]:
    rng = random.Random(21)
    for start in range(2, 10):
        yield {name: context.mpf(start + (rng.randrange(0, 7) if i else 0)) for i, name in enumerate(names)}


_POINTS = (_real(-3000, 3000, 8), _real(50, 3000, 8), _real(50, 900, 8), _whole)


def _ratio(ours: Node, theirs: Node) -> Any:
    """ours / theirs when that is the same finite number, not 0, at every sample point; else None."""
    names = symbols(ours) | symbols(theirs)
    ratios: list[Any] = []
    for points in _POINTS[:3]:
        for point in points(sorted(names)):
            pair = _values((ours, theirs), point, 10, complex_too=is_complex(ours) or is_complex(theirs))
            if pair is None or pair[1] == 0:
                continue
            ratios.append(pair[0] / pair[1])
            if ratios[0] == 0 or abs(ratios[-1] - ratios[0]) > _CLOSE * abs(ratios[0]):
                return None
        if len(ratios) >= _ENOUGH:
            return ratios[0]
    return None


def _same_zeros(ours: Node, theirs: Node) -> bool:
    """Whether zeros found of either side are zeros of the other (for ``xy=1`` and ``y=1/x``)."""
    names = sorted(symbols(theirs))
    found = 0
    for one, other in ((ours, theirs), (theirs, ours)):
        for name in names:
            for point in _POINTS[0](names):
                zero = _zero(one, name, point)
                if zero is None:
                    continue
                found += 1
                try:
                    value = Evaluator(zero, 10)(other)
                except Undefined:
                    return False
                if abs(value) > context.mpf(10) ** -15:
                    return False
    return found >= 2 * _ENOUGH and len(names) > 1


def _zero(node: Node, name: str, point: dict[str, Any]) -> dict[str, Any] | None:
    """The point with ``name`` changed by secant steps so that the formula is 0; None when they do not arrive."""
    x0, x1 = point[name], point[name] + context.mpf("0.1")
    try:
        y0 = Evaluator({**point, name: x0}, 10)(node)
        for _ in range(60):
            y1 = Evaluator({**point, name: x1}, 10)(node)
            if abs(y1) < context.mpf(10) ** -40:
                return {**point, name: x1}
            if y1 == y0 or context.im(y1) != 0:
                return None
            x0, y0, x1 = x1, y1, x1 - y1 * (x1 - x0) / (y1 - y0)
    except Undefined:
        return None
    return None
