"""Values that cross the border between a program under test and the verifier: exact builtins, written as JSON.

Lists, texts, numbers, booleans and None are themselves; everything else is an object with one key:
``{"t": [...]}`` tuple, ``{"s": [...]}`` set, ``{"z": [...]}`` frozenset, ``{"d": [[key, value], ...]}`` dict,
``{"b": hex}`` bytes, ``{"i": hex}`` big integer, ``{"f": text}`` infinities and NaN, ``{"c": [re, im]}`` complex.
Instances of other classes, subclasses of builtins among them, do not cross: their methods cannot reach the comparison.
"""

from __future__ import annotations

from _json import encode_basestring_ascii as _quote  # type: ignore[import-not-found]
from typing import Any

MAX_DEPTH = 100
_PLAIN = 1 << 63
_DICTS = ("Counter", "OrderedDict", "defaultdict")
"""Dicts of ``collections``, which cross as dicts."""


class NotPlainError(ValueError):
    """The value, or one inside it, is no exact builtin. The message says of what type it is."""


def to_json(value: Any, depth: int = 0) -> str:
    """The text of a value. Raises ``NotPlainError``, also for more than 100 levels."""
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int:
        return str(value) if -_PLAIN < value < _PLAIN else f'{{"i":"{value:x}"}}'
    if kind is str:
        return str(_quote(value))
    if kind is float:
        return repr(value) if value - value == 0 else f'{{"f":"{value!r}"}}'
    if kind is bytes:
        return f'{{"b":"{value.hex()}"}}'
    if kind is complex:
        return f'{{"c":[{to_json(value.real)},{to_json(value.imag)}]}}'
    if depth >= MAX_DEPTH:
        raise NotPlainError(f"a value of more than {MAX_DEPTH} levels")
    if kind is list:
        return _items(value, depth)
    if kind is dict or (kind.__module__ == "collections" and kind.__qualname__ in _DICTS and isinstance(value, dict)):
        pairs = (f"[{to_json(k, depth + 1)},{to_json(v, depth + 1)}]" for k, v in dict.items(value))
        return '{"d":[' + ",".join(pairs) + "]}"
    for tag, builtin in (("t", tuple), ("s", set), ("z", frozenset)):
        if kind is builtin:
            return f'{{"{tag}":{_items(value, depth)}}}'
    raise NotPlainError(f"a value of type {kind.__qualname__}")


def _items(values: Any, depth: int) -> str:
    return "[" + ",".join([to_json(value, depth + 1) for value in values]) + "]"
