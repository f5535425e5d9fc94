"""When two outputs are the same: the rules for white space, for floats and for values of different types.

Everything here runs outside the sandbox, on exact builtins that were decoded from text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

CALL_TOLERANCE = 1e-9
"""Floats of call tests may differ by this much of the expected one (of 1 when it is smaller): rounding in another order
of summation. Standard output and asserts have no tolerance unless the row says so."""


def same_output(output: str, expected: str, tolerance: float | None = None) -> bool:
    """Line by line; ``\\r\\n`` is ``\\n``, white space at the end of a line and empty lines at the end do not count.

    Everything else does: spaces in front and between, the split into lines, the case of letters. With a tolerance the
    words of a line are compared one by one, and two that both read as finite numbers may differ by
    ``tolerance * max(1, |expected|)``.
    """
    ours, theirs = _lines(output), _lines(expected)
    if ours == theirs:
        return True
    if tolerance is None or len(ours) != len(theirs):
        return False
    return all(_same_line(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_line(ours: str, theirs: str, tolerance: float) -> bool:
    words, wanted = ours.split(), theirs.split()
    return len(words) == len(wanted) and all(
        a == b or _close_words(a, b, tolerance) for a, b in zip(words, wanted, strict=True)
    )


def _close_words(ours: str, theirs: str, tolerance: float) -> bool:
    if len(ours) > 400 or "_" in ours or "_" in theirs:
        return False
    try:
        a, b = float(ours), float(theirs)
    except ValueError:
        return False
    return math.isfinite(a) and math.isfinite(b) and close(a, b, tolerance)


def close(value: float, expected: float, tolerance: float) -> bool:
    """Within ``tolerance * max(1, |expected|)``; equal infinities are, and NaN is NaN."""
    if value == expected or (math.isnan(value) and math.isnan(expected)):
        return True
    return abs(value - expected) <= tolerance * max(1.0, abs(expected)) and math.isfinite(value)


def same_value(value: Any, expected: Any, tolerance: float | None = None) -> bool:
    """Whether a returned value is the expected one, which came from JSON.

    Numbers by value (``True``, ``1`` and ``1.0`` are the same), floats within the tolerance where either side is one; a
    tuple may stand for a list, as JSON has none; a key of a dict may be the number whose text JSON made of it. Sets,
    bytes and complex numbers equal only themselves.
    """
    if isinstance(expected, bool | int | float) and isinstance(value, bool | int | float):
        if tolerance is None or not (isinstance(value, float) or isinstance(expected, float)):
            return value == expected
        try:
            return close(float(value), float(expected), tolerance)
        except OverflowError:
            return value == expected
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        return len(value) == len(expected) and all(
            same_value(a, b, tolerance) for a, b in zip(value, expected, strict=True)
        )
    if isinstance(expected, Mapping) and isinstance(value, dict):
        return _same_dict(value, expected, tolerance)
    return type(value) is type(expected) and value == expected


def _same_dict(value: dict[Any, Any], expected: Mapping[Any, Any], tolerance: float | None) -> bool:
    if len(value) != len(expected):
        return False
    named = {_key(key): key for key in value}
    return len(named) == len(value) and all(
        (place := key if key in value else named.get(key, _NO_KEY)) is not _NO_KEY
        and same_value(value[place], wanted, tolerance)
        for key, wanted in expected.items()
    )


_NO_KEY = object()


def _key(key: Any) -> Any:
    """A key as JSON writes it."""
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    return str(key) if isinstance(key, int | float) else key


def from_json(text: str) -> Any:
    """The value that ``sandbox.inside.values.to_json`` wrote. Raises ``ValueError`` for any other text."""
    try:
        return _value(json.loads(text))
    except (TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a value: {error}") from None


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return [_value(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((tag, body),) = data.items()
    if tag == "d":
        return {_value(key): _value(item) for key, item in body}
    if tag in ("t", "s", "z"):
        return {"t": tuple, "s": set, "z": frozenset}[tag](_value(item) for item in body)
    if tag == "i":
        return int(body, 16)
    if tag == "f":
        return float(body)
    if tag == "b":
        return bytes.fromhex(body)
    if tag == "c":
        real, imaginary = (_value(part) for part in body)
        return complex(real, imaginary)
    raise ValueError(f"unknown tag {tag!r}")
