"""The reader and the arithmetic below the comparison: trees, exact values, sizes, sets of reals, units."""

from fractions import Fraction

import pytest

from headrace.verifiers.math_exact import TooLarge, Undefined, exact
from headrace.verifiers.math_node import TooDeep, Unreadable
from headrace.verifiers.math_sets import real_set
from headrace.verifiers.math_syntax import read
from headrace.verifiers.math_text import normalise
from headrace.verifiers.math_units import factor, measured, parse_unit
from headrace.verifiers.math_value import Evaluator, symbols
from headrace.verifiers.math_words import clock, date, spelled_number, words


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2\\cdot 3", Fraction(7)),
        ("2/3/4", Fraction(1, 6)),
        ("-2^2", Fraction(-4)),
        ("(-2)^2", Fraction(4)),
        ("2^{3!}", Fraction(64)),
        ("7 2/5", Fraction(37, 5)),
        ("7\\frac{2}{5}", Fraction(37, 5)),
        ("\\frac{1}{3}8", Fraction(8, 3)),
        ("1.5e-3", Fraction(3, 2000)),
        ("\\sqrt{\\frac{4}{9}}", Fraction(2, 3)),
        ("8^{2/3}", Fraction(4)),
        ("7!!", Fraction(105)),
        ("\\binom{5}{2}", Fraction(10)),
        ("\\lfloor -2.5\\rfloor", Fraction(-3)),
        ("|1-4|", Fraction(3)),
        ("50%", Fraction(1, 2)),
        ("\\sqrt{2}", None),
        ("\\pi", None),
        ("x", None),
    ],
)
def test_exact_values(text, value):
    assert exact(read(text)) == value


@pytest.mark.parametrize(
    "text", ["1 2", "1+", "(1", "1)", "2^3^4", "\\frac{1}", "\\mystery{1}", "a;b", "1..2", "", "|1", "x_{1"]
)
def test_what_is_not_understood_is_not_dropped(text):
    with pytest.raises(Unreadable):
        read(text)


def test_nesting_has_an_end():
    with pytest.raises(TooDeep):
        read("(" * 200 + "1" + ")" * 200)
    with pytest.raises(TooDeep):
        read("2^-" * 200 + "2")


def test_sizes_are_asked_for_first():
    for text in ("2^{10^{7}}", "10^{10^{10}}", "(10^8)!", "\\binom{10^7}{5\\cdot 10^6}", "0.5^{10^9}"):
        with pytest.raises(TooLarge):
            exact(read(text))
    assert exact(read("2^{1000}")) == 2**1000


def test_no_value():
    for text in ("\\frac{1}{0}", "0^{-1}", "(-1)!"):
        with pytest.raises(Undefined):
            exact(read(text))
    with pytest.raises(Undefined):
        Evaluator({})(read("\\ln 0"))


def test_symbols():
    assert symbols(read("a_1 x + \\theta e^{i\\pi} + \\sum_{k=1}^{n} k")) == {"a_1", "x", "\\theta", "n"}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("\\dfrac12", "\\frac{1}{2}"),
        ("\\frac138", "\\frac{1}{3}8"),
        ("x²", "x^{2}"),
        ("7½", "7 1/2"),
        ("√12", "\\sqrt{12}"),
        ("36,\\!480", "36,480"),
        ("1\\,234", "1234"),
        ("14 {, }916", "14916"),
        ("3{,}14", "3.14"),
        ("0.1\\overline{6}", "\\frac{15}{90}"),
        ("\\left( 5, 6 \\right)", "( 5, 6 )"),
        ("**42**", "42"),
        ("$42$.", "42"),
        ("６ ≤ x", "6 \\le x"),
        ("sqrt(2)", "\\sqrt{2}"),
        ("2**(1/4)", "2^{1/4}"),
        ("729 \\text{ and } 1000", "729 , 1000"),
        ("\\textbf{(A)}", "\\text{(A)}"),
    ],
)
def test_spelling(text, canonical):
    assert normalise(text) == canonical


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("[1,2)", [(1, 2, False, True)]),
        ("x < 3", [("-inf", 3, True, True)]),
        ("3 \\ge x", [("-inf", 3, True, False)]),
        ("1 < x \\le 2", [(1, 2, True, False)]),
        ("2 \\ge x > 1", [(1, 2, True, False)]),
        ("x \\ne 0", [("-inf", 0, True, True), (0, "inf", True, True)]),
        ("|x| \\le 2", [(-2, 2, False, False)]),
        ("(0,1]\\cup[1,2)", [(0, 2, True, True)]),  # they touch
        ("(0,1)\\cup(1,2)", [(0, 1, True, True), (1, 2, True, True)]),
        ("(0,1)\\cup\\{1\\}", [(0, 1, True, False)]),
        ("\\mathbb{R}\\setminus\\{0\\}", [("-inf", 0, True, True), (0, "inf", True, True)]),
        ("x \\in \\{1\\}", [(1, 1, False, False)]),
    ],
)
def test_sets_of_reals(text, pieces):
    found = real_set(text)
    assert [(p.low, p.high, p.low_open, p.high_open) for p in found.pieces] == [
        (float(low), float(high), a, b) for low, high, a, b in pieces
    ]


@pytest.mark.parametrize("text", ["(a,b)", "3", "x+y<1", "(2,1)", "x = 3 + y"])
def test_no_set_of_reals(text):
    assert real_set(text) is None


def test_units():
    area, spelled = measured("18\\text{ cm}^{2}").unit, parse_unit("square centimetres")
    assert (area.dimension, area.size) == (spelled.dimension, spelled.size) == ((("length", 2),), Fraction(1, 10_000))
    assert measured(normalise("\\$1.50")).value == "1.50"
    assert factor(measured(normalise("\\$1.50")).unit, measured("150 cents").unit) == 100
    assert measured("35 \\%") == measured("35 percent")
    assert measured("2ab").value == "2ab"  # symbols, no unit
    assert measured("12 apples").value == "12"
    assert factor(parse_unit("km/h"), parse_unit("m/s")) == Fraction(5, 18)
    assert factor(parse_unit("m"), parse_unit("cm")) == 100
    assert factor(parse_unit("m"), parse_unit("m^{2}")) is None
    assert factor(parse_unit("apples"), parse_unit("cm")) == 1


def test_words():
    assert words("\\text{ The Harriet. }") == "harriet"
    assert words("是") == words("True") == "yes"
    assert words("xy") is None
    assert words("\\text{xy}") == "xy"
    assert words("x^2 where x is odd") is None
    assert spelled_number("twenty-one") == "21"
    assert spelled_number("三百二十五") == "325"
    assert spelled_number("1.2万") == "12000"
    assert spelled_number("five six") is None
    assert clock("2:05 p.m.") == (2, 5, 0, "pm")
    assert clock("25:00") is None
    assert date("5th of March, 2020") == date("2020-03-05") == (2020, 3, 5)
    assert date("3月5日") == (0, 3, 5)
    assert date("May I?") is None
