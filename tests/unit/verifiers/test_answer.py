from fractions import Fraction

import pytest

from headrace.verifiers.answer import after_marker, after_thinking, final_number, parse_number, same_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7+5=12 4+8+1=13 3+1=4#432", "432"),
        ("so he pays\n#### 1,234", "1,234"),
        ("The answer is 7 2/5.", "7 2/5"),
        ("The answer is **$18** because 3 < 4", "$18"),
        ("Answer: -3", "-3"),
        ("the answer is x = 4, as 5 > 4", "4"),
        ("10-5=5", "5"),  # a minus between numbers is no sign
        ("between 3 and -4", "-4"),
        ("x2 = 3", "3"),
        ("costs $1,234.50 in total", "$1,234.50"),
        ("答案是 7个", "7"),
        ("２５", "25"),
        ("the answer is 12 or 13", None),  # hedging is no answer
        ("# Step 1\nI do not know", "1"),
        ("", None),
        ("no", None),
    ],
)
def test_final_number(text, number):
    assert final_number(text) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", Fraction(2469, 2)),
        ("2/3", Fraction(2, 3)),
        ("7 2/5", Fraction(37, 5)),
        ("-7 2/5", Fraction(-37, 5)),
        ("1e-3", Fraction(1, 1000)),
        ("-0.0", Fraction(0)),
        ("−5", Fraction(-5)),
        (".5", Fraction(1, 2)),
        ("48.", Fraction(48)),
        ("9007199254740993", Fraction(9007199254740993)),  # a float would lose the last digit
        ("7/0", None),
        ("1,23", None),
        ("12 13", None),
        ("9" * 4001, None),
        ("1e99999", None),
        ("x", None),
    ],
)
def test_parse_number(text, value):
    found = parse_number(text)
    assert (found[0] if found else None) == value


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("35%", "35", True),
        ("35%", "0.35", True),
        ("0.35", "35%", True),
        ("3500", "35%", False),
        ("35%", "35%", True),
        ("9007199254740992", "9007199254740993", False),
    ],
)
def test_same_number(answer, gold, same):
    assert same_number(parse_number(answer), parse_number(gold)) is same


def test_thinking():
    assert after_thinking("<think>12</think> 13") == " 13"
    assert after_thinking("12") == "12"
    assert after_thinking("<think>12") is None


def test_marker():
    assert after_marker("a#1#2 ", "#") == "2"
    assert after_marker("a#1#", "#") is None  # an answer that was begun again and not given
    assert after_marker("a1", "#") is None
