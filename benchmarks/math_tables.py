"""Verdicts on public tables of mathematical answers: ours beside math-verify alone.

    .venv/bin/python benchmarks/math_tables.py PLACE... --json OUT [--show]

A PLACE is a test folder of math-verify (``tests/`` of its source archive: the rows of its parametrised tests are read,
nothing there is run), a JSON file with a list of ``{"output", "target", "expected": "C" | "I"}`` (the form of
inspect_ai's ``math_cases.json``), or a JSONL file of rows as for ``headrace verify`` with one more field, ``right``.
math-verify alone is ``verify(parse(gold), parse(answer))`` with its own time limits.
"""

from __future__ import annotations

import argparse
import ast
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.verifiers.math import MathVerifier


@dataclass(frozen=True)
class Row:
    """One verdict somebody wrote down."""

    table: str
    gold: str
    answer: str
    right: bool


def main() -> None:
    parser = argparse.ArgumentParser(description="Our verdicts and math-verify's on public tables.")
    parser.add_argument("places", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--show", action="store_true", help="print the rows we judge otherwise than the table")
    options = parser.parse_args()
    rows = [row for place in options.places for row in _rows(place)]
    report = _judge(rows, show=options.show)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    for table, figures in report.items():
        print(f"{table:28}", figures)


def _rows(place: Path) -> Iterator[Row]:
    if place.suffix == ".jsonl":
        for line in place.read_text().splitlines():
            case = json.loads(line)
            yield Row(place.name, str(case["gold"]), case["response"], case["right"])
        return
    if place.is_file():
        for case in json.loads(place.read_text()):
            yield Row(place.name, case["target"], case["output"], case["expected"] == "C")
        return
    for file in sorted(place.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield from _parametrised(file.name, node)


def _parametrised(table: str, function: ast.FunctionDef) -> Iterator[Row]:
    """Rows of ``@pytest.mark.parametrize("gold, pred, expected...", [...])`` that are plain literals."""
    for decorator in function.decorator_list:
        if not (
            isinstance(decorator, ast.Call) and len(decorator.args) == 2 and isinstance(decorator.args[1], ast.List)
        ):
            continue
        names = [name.strip() for name in str(ast.literal_eval(decorator.args[0])).split(",")]
        if names[:2] != ["gold", "pred"]:
            continue
        for element in decorator.args[1].elts:
            try:
                values: tuple[Any, ...] = ast.literal_eval(element)
            except ValueError:
                continue  # an f-string
            case = dict(zip(names, values, strict=True))
            if case.get("strict", True) and case.get("allow_set_relation_comp", True):
                yield Row(table, case["gold"], case["pred"], bool(case.get("expected", case.get("result"))))


def _judge(rows: list[Row], *, show: bool) -> dict[str, dict[str, Any]]:
    verifier = MathVerifier()
    report: dict[str, dict[str, Any]] = {}
    for row in rows:
        started = time.perf_counter()
        ours = verifier(row.answer, {"answer": row.gold}).passed
        middle = time.perf_counter()
        alone = _math_verify(row)
        figures = report.setdefault(
            row.table, {"rows": 0, "ours": 0, "math_verify": 0, "ours_s": 0.0, "math_verify_s": 0.0}
        )
        figures["rows"] += 1
        figures["ours"] += ours == row.right
        figures["math_verify"] += alone == row.right
        figures["ours_s"] = round(figures["ours_s"] + middle - started, 4)
        figures["math_verify_s"] = round(figures["math_verify_s"] + time.perf_counter() - middle, 4)
        if show and ours != row.right:
            kind = "false reject" if row.right else "false accept"
            print(f"{row.table}: {kind}\n  {row.gold[-150:]!r}\n  {row.answer[-150:]!r}")
    return report


def _math_verify(row: Row) -> bool:
    from math_verify import parse, verify

    logging.disable(logging.ERROR)
    return bool(verify(parse(row.gold), parse(row.answer)))


if __name__ == "__main__":
    main()
