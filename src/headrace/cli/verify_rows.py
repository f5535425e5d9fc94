"""Rows for ``headrace verify``: read, checked one by one, each mistake with its line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import DataError
from headrace.verifiers.code_block import as_response
from headrace.verifiers.code_tests import TestsFault, read_case
from headrace.verifiers.math_options import KEYS, MathOptions
from headrace.verifiers.spec import VerifierSpec

GOLD_COLUMN = "gold"


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """``fields``: all that the row says, which is what the verifier sees beside the response."""

    id: str | int
    response: str
    fields: Mapping[str, Any]


class Malformed(DataError):  # noqa: N818
    """A line that is no row for this verifier; the message names it."""


def read_rows(path: Path, spec: VerifierSpec) -> tuple[list[VerifyRow], list[Malformed]]:
    """Rows in order, and the malformed ones. Raises ``DataError`` when the file cannot be read or holds no line."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    rows: list[VerifyRow] = []
    malformed: list[Malformed] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line, spec))
        except ValueError as error:
            malformed.append(Malformed(f"{path}, line {number}: {error}"))
    if not rows and not malformed:
        raise DataError(f"{path} has no rows.")
    return rows, malformed


def _row(line: bytes, spec: VerifierSpec) -> VerifyRow:
    """One row. Raises ``ValueError`` saying what is wrong with it."""
    try:
        fields = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it cannot be read ({type(error).__name__}).") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error.msg} at column {error.colno}).") from None
    if not isinstance(fields, dict):
        raise ValueError(f"found {type(fields).__name__}; allowed: an object with id and response.")
    identity = fields.get("id")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise ValueError(f"id: found {_shown(fields, 'id')}; allowed: a text or a whole number.")
    _check_fields(fields, spec)
    return VerifyRow(identity, _response(fields, spec), fields)


def _check_fields(fields: Mapping[str, Any], spec: VerifierSpec) -> None:
    if spec.name == "code":
        try:
            read_case(fields, GOLD_COLUMN)
        except TestsFault as fault:
            raise ValueError(f"the tests: {fault}") from None
        return
    if spec.judges_text:
        gold = fields.get(GOLD_COLUMN)
        if isinstance(gold, bool) or not isinstance(gold, str | int | float):
            raise ValueError(f"gold: found {_shown(fields, GOLD_COLUMN)}; allowed: a text or a number.")
        MathOptions.of({key: fields[key] for key in KEYS if fields.get(key) is not None})


def _response(fields: Mapping[str, Any], spec: VerifierSpec) -> str:
    code = fields.get("code")
    if spec.name == "code" and code is not None:
        if not isinstance(code, str):
            raise ValueError(f"code: found {_shown(fields, 'code')}; allowed: a text.")
        return as_response(code)
    response = fields.get("response")
    if not isinstance(response, str):
        wanted = "response (or code)" if spec.name == "code" else "response"
        raise ValueError(f"{wanted}: found {_shown(fields, 'response')}; allowed: a text.")
    return response


def _shown(fields: Mapping[str, Any], name: str) -> str:
    return type(fields[name]).__name__ if name in fields else "nothing"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number.")
