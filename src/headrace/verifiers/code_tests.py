"""The tests of a row: standard input and output, calls, asserts; and its limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.verifiers.code_asserts import Condition, rewrite
from headrace.verifiers.code_compare import CALL_TOLERANCE
from headrace.verifiers.sandbox.session import Limits

TESTS_COLUMN = "tests"
_MIN_MEMORY_MB = 64


class TestsFault(ValueError):  # noqa: N818
    """A row whose tests cannot be used; the message names the test, counted from 1."""

    __test__ = False


@dataclass(frozen=True, slots=True)
class StdinTest:
    """A run of the program as a script."""

    stdin: str
    stdout: str
    tolerance: float | None


@dataclass(frozen=True, slots=True)
class CallTest:
    """``call`` (a name, or a dotted one such as ``Solution().solve``) with ``args`` returns ``expect``."""

    call: str
    args: tuple[Any, ...]
    expect: Any
    tolerance: float


@dataclass(frozen=True, slots=True)
class AssertTest:
    """``condition`` None: it cannot be rewritten and runs beside the program (``in_process``)."""

    source: str
    condition: Condition | None
    tolerance: float | None

    @property
    def in_process(self) -> bool:
        return self.condition is None


CodeTest = StdinTest | CallTest | AssertTest


@dataclass(frozen=True, slots=True)
class CodeCase:
    """The tests and limits of one row."""

    tests: tuple[CodeTest, ...]
    limits: Limits

    @property
    def num_in_process(self) -> int:
        return sum(isinstance(test, AssertTest) and test.in_process for test in self.tests)


def read_case(row: Mapping[str, Any], answer_column: str = TESTS_COLUMN, defaults: Limits | None = None) -> CodeCase:
    """Tests from the row's column ``tests``, else from its answer column (a list, or its JSON text).

    Raises ``TestsFault`` when there is none, or for one that is malformed.
    """
    limits = _limits(row.get("limits"), defaults or Limits())
    found = row.get(TESTS_COLUMN)
    listed = _as_list(row.get(answer_column) if found is None else found)
    if not listed:
        raise TestsFault("there is none: at least one is needed.")
    tolerance = _tolerance(row.get("tolerance"), "the row")
    return CodeCase(tuple(_test(data, f"test {i}", tolerance) for i, data in enumerate(listed, 1)), limits)


def _as_list(found: Any) -> list[Any]:
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError as error:
            raise TestsFault(f"the column is no JSON ({error}).") from None
    if found is None:
        return []
    if not isinstance(found, list | tuple):
        raise TestsFault(f"found {type(found).__name__}; allowed: a list of tests.")
    return list(found)


def _test(data: Any, who: str, tolerance: float | None) -> CodeTest:
    if isinstance(data, str):
        data = {"assert": data}
    if not isinstance(data, Mapping):
        raise TestsFault(f"{who}: found {type(data).__name__}; allowed: an object.")
    data = {key: value for key, value in data.items() if value is not None or key == "expect"}
    own = _tolerance(data.get("tolerance"), who)
    tolerance = tolerance if own is None else own
    if "assert" in data:
        return _assert(data["assert"], who, tolerance)
    if "call" in data:
        return _call(data, who, tolerance)
    if "stdout" in data:
        stdin, stdout = data.get("stdin", ""), data["stdout"]
        if not isinstance(stdin, str) or not isinstance(stdout, str):
            raise TestsFault(f"{who}: stdin and stdout must be texts.")
        return StdinTest(stdin, stdout, tolerance)
    raise TestsFault(
        f"{who} has the fields {', '.join(map(str, data)) or 'none'}; allowed: stdin and stdout, or call, args and "
        "expect, or assert."
    )


def _call(data: Mapping[str, Any], who: str, tolerance: float | None) -> CallTest:
    name, args = data["call"], data.get("args", [])
    if not isinstance(name, str) or not name.strip():
        raise TestsFault(f"{who}: call must be the name of a function.")
    if not isinstance(args, list | tuple):
        raise TestsFault(f"{who}: args must be a list.")
    if "expect" not in data:
        raise TestsFault(f"{who}: a call needs what is expected of it (expect).")
    return CallTest(name.strip(), tuple(args), data["expect"], CALL_TOLERANCE if tolerance is None else tolerance)


def _assert(source: Any, who: str, tolerance: float | None) -> AssertTest:
    if not isinstance(source, str):
        raise TestsFault(f"{who}: assert must be a text.")
    text = source.strip()
    faults = []
    for candidate in (text, f"assert {text}"):
        try:
            return AssertTest(candidate, rewrite(candidate), tolerance)
        except (SyntaxError, ValueError) as error:
            faults.append(error)
    raise TestsFault(f"{who}: the assert cannot be read: {faults[0]}.")


def _tolerance(value: Any, who: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise TestsFault(f"{who}: tolerance must be a number >= 0, found {value!r}.")
    return float(value)


def _limits(data: Any, defaults: Limits) -> Limits:
    if data is None:
        return defaults
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            data = None
    allowed = ("time_s", "memory_mb", "output_bytes")
    if not isinstance(data, Mapping) or not set(data) <= set(allowed):
        raise TestsFault(f"limits: found {data!r:.100}; allowed: an object with {', '.join(allowed)}.")
    for key, value in data.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise TestsFault(f"limits.{key} must be a number > 0, found {value!r}.")
    time_s, memory_mb, output = (data.get(key) for key in allowed)
    return replace(
        defaults,
        time_s=float(time_s or defaults.time_s),
        memory_bytes=int(max(memory_mb, _MIN_MEMORY_MB) * 2**20) if memory_mb else defaults.memory_bytes,
        output_bytes=int(output or defaults.output_bytes),
    )
