"""Asserts as questions to the program and a condition on its answers, which is evaluated outside.

``assert abs(half(5) - 2.5) <= 1e-6`` becomes the question ``half(5)`` and the condition ``abs(_0 - 2.5) <= 1e-6``: what
is expected never enters the program's process, and no method of its objects takes part in the comparison.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from headrace.verifiers.code_compare import same_value

_FUNCTIONS = (
    *(
        "abs",
        "all",
        "any",
        "bool",
        "bytes",
        "chr",
        "complex",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "frozenset",
        "int",
    ),
    *("isinstance", "len", "list", "map", "max", "min", "ord", "range", "repr", "reversed", "round", "set", "sorted"),
    *("str", "sum", "tuple", "type", "zip"),
)
_TEXT_METHODS = (
    "capitalize",
    "endswith",
    "find",
    "isalpha",
    "isdigit",
    "islower",
    "isupper",
    "join",
    "lower",
    "lstrip",
)
_MORE_TEXT_METHODS = ("replace", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper")
_SET_METHODS = ("difference", "intersection", "issubset", "issuperset", "symmetric_difference", "union")
_METHODS = frozenset(
    (*_TEXT_METHODS, *_MORE_TEXT_METHODS, *_SET_METHODS, "count", "index", "get", "items", "keys", "values")
)
_NODES = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.IfExp),
    *(ast.Subscript, ast.Slice, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
    *(ast.Call, ast.keyword, ast.Name, ast.Starred, ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop, ast.operator),
)
_NAMES: dict[str, Any] = {name: getattr(builtins, name) for name in _FUNCTIONS}
_NAMES |= {"math": math, "isclose": math.isclose, "__builtins__": {}}


@dataclass(frozen=True, slots=True)
class Condition:
    """``questions[i]`` is an expression in the program's terms; ``holds`` says whether the answers are right."""

    questions: tuple[str, ...]
    _code: tuple[CodeType, ...]
    _sides: tuple[CodeType, CodeType] | None = field(default=None)

    def holds(self, answers: Sequence[Any], tolerance: float | None = None) -> bool:
        """Python's own comparison of builtins; with a tolerance, that of call tests where the assert is ``a == b``.

        Raises whatever the comparison raises, such as ``TypeError`` for an answer of the wrong type.
        """
        names = {**_NAMES, **{f"_{i}": answer for i, answer in enumerate(answers)}}
        if tolerance is not None and self._sides is not None:
            left, right = (eval(side, dict(names)) for side in self._sides)
            return same_value(left, right, tolerance)
        return all(bool(eval(code, dict(names))) for code in self._code)


def rewrite(source: str) -> Condition | None:
    """The condition of one or more asserts; None when they need more than is evaluated outside.

    Raises ``SyntaxError`` for a text that is no Python and ``ValueError`` for one without an assert.
    """
    statements = [node for node in ast.parse(source).body if not _is_math_import(node)]
    if not any(isinstance(node, ast.Assert) for node in ast.walk(ast.Module(statements, []))):
        raise ValueError("it asserts nothing")
    questions: list[str] = []
    tests = []
    try:
        for node in statements:
            if not isinstance(node, ast.Assert):
                return None
            tests.append(_Split(questions).visit(node.test))
        for test in tests:
            _check(test)
    except _NotOutsideError:
        return None
    if not questions:
        return None
    code = tuple(_compiled(test) for test in tests)
    return Condition(tuple(questions), code, _sides(tests))


class _NotOutsideError(Exception):
    pass


class _Split(ast.NodeTransformer):
    """Puts ``_0``, ``_1``, ... in place of the expressions that only the program can evaluate, and collects those."""

    def __init__(self, questions: list[str]) -> None:
        self._questions = questions
        self._bound: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        known = (
            (node.id in _NAMES and not node.id.startswith("__"))
            or node.id in self._bound
            or isinstance(node.ctx, ast.Store)
        )
        return node if known else self._ask(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node if isinstance(node.value, ast.Name) and node.value.id == "math" else self._ask(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        root = _root(node)
        if root is None or root in _NAMES or root in self._bound:
            return self.generic_visit(node) if not isinstance(node.func, ast.Attribute) else self._method(node)
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
        if is_method and not root[:1].isupper():  # a class's own method may have such a name
            return self._method(node)
        return self._ask(node)

    def _method(self, node: ast.Call) -> ast.AST:
        """A method of a builtin value: the value may come from the program, the method runs outside."""
        if isinstance(node.func, ast.Attribute) and not _is_math(node.func):
            node.func.value = self.visit(node.func.value)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def _comprehension(self, node: Any) -> ast.AST:
        names = {n.id for part in node.generators for n in ast.walk(part.target) if isinstance(n, ast.Name)}
        before, self._bound = self._bound, self._bound | names
        try:
            return self.generic_visit(node)
        finally:
            self._bound = before

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def _ask(self, node: ast.expr) -> ast.Name:
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if used & self._bound or any(isinstance(n, ast.NamedExpr | ast.Await | ast.Yield) for n in ast.walk(node)):
            raise _NotOutsideError  # one question for every pass of a loop
        source = ast.unparse(node)
        self._questions.append(source)
        return ast.copy_location(ast.Name(f"_{len(self._questions) - 1}", ast.Load()), node)


def _root(node: ast.expr) -> str | None:
    """The name a chain of calls, attributes and subscripts begins with; None when it begins with a value."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_math(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "math"


def _check(test: ast.expr) -> None:
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute):
            if not (_is_math(node) or node.attr in _METHODS) or node.attr.startswith("_"):
                raise _NotOutsideError
        elif not isinstance(node, _NODES) or isinstance(node, ast.Pow | ast.LShift | ast.MatMult):
            raise _NotOutsideError


def _sides(tests: list[ast.expr]) -> tuple[CodeType, CodeType] | None:
    if len(tests) != 1 or not isinstance(tests[0], ast.Compare) or len(tests[0].ops) != 1:
        return None
    if not isinstance(tests[0].ops[0], ast.Eq):
        return None
    return _compiled(tests[0].left), _compiled(tests[0].comparators[0])


def _compiled(node: ast.expr) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(node)), "test", "eval")


def _is_math_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(alias.name == "math" and alias.asname is None for alias in node.names)
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "math"
        and all(alias.name == "isclose" and alias.asname is None for alias in node.names)
    )
