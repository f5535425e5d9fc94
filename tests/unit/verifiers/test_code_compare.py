import math

import pytest

from headrace.verifiers.code_asserts import rewrite
from headrace.verifiers.code_compare import CALL_TOLERANCE, from_json, same_output, same_value
from headrace.verifiers.sandbox.inside.values import NotPlainError, to_json


@pytest.mark.parametrize(
    ("output", "expected", "tolerance", "same"),
    [
        ("1 2\n", "1 2", None, True),
        ("1 2  \r\n\n\n", "1 2\n", None, True),
        ("1 2\n", "12\n", None, False),
        ("1\n2\n", "1 2\n", None, False),
        (" 1\n", "1\n", None, False),
        ("1  2\n", "1 2\n", None, False),
        ("\n1\n", "1\n", None, False),
        ("Yes", "YES", None, False),
        ("0.30000000000000004", "0.3", None, False),
        ("0.30000000000000004", "0.3", 1e-6, True),
        ("a 2.50  c", "a 2.5 c", 1e-6, True),
        ("2.6", "2.5", 1e-6, False),
        ("1000001", "1000000", 1e-6, True),
        ("nan", "nan", 1e-6, True),
        ("nan", "1", 1e-6, False),
        ("1_0", "10", 1e-6, False),
        ("7\n" + "x" * 10, "7\n", None, False),
        ("", "", None, True),
    ],
)
def test_output(output, expected, tolerance, same):
    assert same_output(output, expected, tolerance) is same


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (1, 1, True),
        (True, 1, True),
        (1.0, 1, True),
        ("1", 1, False),
        (1, "1", False),
        ((1, (2,)), [1, [2]], True),
        ([1, 2], [2, 1], False),
        ({1, 2}, [1, 2], False),
        ({1: "a", None: 2}, {"1": "a", "null": 2}, True),
        ({1: 1, "1": 1}, {"1": 1, "2": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (0.1 + 0.2, 0.3, True),
        (2.5 + 1e-6, 2.5, False),
        (10**400, 1.0, False),
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (math.inf, 1.0, False),
        (None, None, True),
        (None, False, False),
        (b"a", "a", False),
    ],
)
def test_values(value, expected, same):
    assert same_value(value, expected, CALL_TOLERANCE) is same


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -7,
        10**100,
        -(2**63),
        0.1,
        -math.inf,
        'é\ud800\n"',
        b"\0\xff",
        3 - 4j,
        [1, (2, [3]), {4}, frozenset([5]), {(6,): [7], None: {}}],
    ],
)
def test_values_cross_unchanged(value):
    back = from_json(to_json(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "text", ["", "{", '{"q": 1}', "{}", '{"d": [1]}', '{"i": 5}', '{"s": [[]]}', '{"t": 1}', "[" * 9999]
)
def test_text_that_is_no_value(text):
    with pytest.raises(ValueError, match=r".*"):
        from_json(text)


def test_what_does_not_cross():
    class Text(str):
        __slots__ = ()

    for value in (object(), Text("a"), [lambda: 1], {"a": range(3)}):
        with pytest.raises(NotPlainError, match="a value of type"):
            to_json(value)


@pytest.mark.parametrize(
    ("source", "questions", "answers", "holds"),
    [
        ("assert f(1) == 2", ["f(1)"], [2], True),
        ("assert f(1) == 2", ["f(1)"], [3], False),
        ("assert 2 == f(x=1)", ["f(x=1)"], [2], True),
        ("assert abs(f(5) - 2.5) <= 1e-6", ["f(5)"], [2.5], True),
        ("import math\nassert math.isclose(f(2), 1.41, rel_tol=0.01)", ["f(2)"], [1.414], True),
        ("assert sorted(f([2, 1])) == [1, 2]", ["f([2, 1])"], [[2, 1]], True),
        ("assert f(1)[0] == 'a' and f(2)[-1:] == ['b']", ["f(1)", "f(2)"], [["a"], ["b"]], True),
        ("assert not f(1)", ["f(1)"], [0], True),
        ("assert f(g(1)) is None", ["f(g(1))"], [None], True),
        ("assert Solution().run([1], 2) == [1]", ["Solution().run([1], 2)"], [[1]], True),
        ("assert Stack(3).count(1) == 2", ["Stack(3).count(1)"], [2], True),
        ("assert f(1).startswith('secret')", ["f(1)"], ["secret!"], True),
        ("assert set(f(1)) == {1, 2}", ["f(1)"], [(2, 1)], True),
        ("assert all(x > 0 for x in f(1))", ["f(1)"], [[1, -1]], False),
        ("assert len(f(1)) == 2\nassert f(2) in (3, 4)", ["f(1)", "f(2)"], ["ab", 4], True),
        ("assert f(1) == (1, 2)", ["f(1)"], [[1, 2]], False),
        ("assert isinstance(f(1), int)", ["f(1)"], [1], True),
        ("assert LIMIT == 3", ["LIMIT"], [3], True),
    ],
)
def test_asserts_become_questions(source, questions, answers, holds):
    condition = rewrite(source)
    assert list(condition.questions) == questions
    assert condition.holds(answers) is holds


def test_a_tolerance_holds_for_equality_only():
    assert rewrite("assert f(1) == 0.5").holds([0.5001], tolerance=0.01)
    assert not rewrite("assert f(1) >= 0.5").holds([0.4999], tolerance=0.01)


@pytest.mark.parametrize(
    "source",
    [
        "import random\nassert f(random.random()) == 1",
        "x = 1\nassert f(x) == 1",
        "assert all(f(x) == x for x in range(3))",
        "for i in range(3):\n    assert f(i) == i",
        "assert f(1).real == 1 and (y := 2)",
        "assert 2 ** f(1) == 4",
        "assert (lambda: f(1))() == 1",
        "assert 1 == 1",
    ],
)
def test_asserts_that_need_more(source):
    assert rewrite(source) is None


def test_a_text_without_an_assert():
    with pytest.raises(ValueError, match="asserts nothing"):
        rewrite("f(1)")
