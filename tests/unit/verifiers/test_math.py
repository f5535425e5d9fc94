import pytest

from headrace.verifiers.math import MathVerifier, same_answer
from headrace.verifiers.math_answer import extract

EXTRACTED = {
    "the last box decides": ("first \\boxed{12}, no: \\boxed{17}.", "17", ""),
    "a box far from the end": ("\\boxed{913}. " + "And so on. " * 500, "913", ""),
    "braces inside a box": ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}", ""),
    "escaped braces inside a box": ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}", ""),
    "boxes joined by a word": ("\\boxed{(2,9)} and \\boxed{(9,2)}", "(2,9), (9,2)", ""),
    "boxes joined by commas": ("\\boxed{3}, \\boxed{7}, \\boxed{11}", "3, 7, 11", ""),
    "boxes parted by text": ("\\boxed{3} was wrong, so \\boxed{7}", "7", ""),
    "an empty box does not revive an earlier one": ("\\boxed{58}. Final: \\boxed{}", None, "empty box"),
    "an unfinished box does not either": ("\\boxed{58}. Final: \\boxed{5", None, "unfinished box"),
    "named without a box": ("so the answer is $5/8$ as 1 < 2", "5/8", ""),
    "the last formula": ("first $1$ and then $2$", "2", ""),
    "the last number": ("3 and 4 make 7", "7", ""),
    "nothing": ("", None, "no answer"),
}


@pytest.mark.parametrize("name", EXTRACTED)
def test_extract(name):
    text, answer, reason = EXTRACTED[name]
    found = extract(text)
    assert (found.answer, found.reason) == (answer, reason)


SAME = [
    ("\\frac{3}{4}", "0.75"),
    ("\\frac{4}{3}", "\\frac{8}{6}"),
    ("602000", "6.02 \\times 10^{5}"),
    ("\\$36,\\!480", "36480"),
    ("-0.0", "0"),
    ("48.", "48"),
    ("0.285714", "\\frac{2}{7}"),  # rounded to six digits
    ("\\sqrt7", "\\sqrt{7}"),
    ("\\frac{5}{\\sqrt{3}}", "\\frac{5\\sqrt{3}}{3}"),
    ("\\frac{\\ln 9}{\\ln 2}", "\\log_2 9"),
    ("exp(12) - 5", "e^{12}-5"),
    ("9.0 + -1.0i", "9-i"),
    ("x=9", "9"),
    ("y=-2x+4", "6x+3y-12=0"),
    ("(4.0,9.0)", "(4,9)"),
    ("\\{9, 2, 5\\}", "\\{2,5,9\\}"),
    ("-15, 15", "\\pm 15"),
    ("2 < x < 7.5", "(2, 7.5)"),
    ("18", "18\\text{ cm}^2"),
    ("58°", "58^\\circ"),
    ("35", "35\\%"),
    ("\\text{harriet}", "\\text{Harriet}"),
    ("\\text{C}", "C"),
    ("3个", "3"),
    ("２５", "25"),
    ("\\binom{1800}{900}", "\\binom{1800}{900}"),
]

DIFFERENT = [
    ("0.29", "\\frac{2}{7}"),
    ("4.1e4", "0.00041"),
    ("\\frac{1}{2^{118}}", "\\frac{1}{2^{120}}"),
    ("0", "3\\times 10^{-9}"),
    ("9007199254740992", "9007199254740993"),
    ("7 2/5", "7"),
    ("4\\frac{0}{0}", "4"),
    ("\\frac138", "\\frac{13}{8}"),
    ("5\\sqrt(3)", "5"),
    ("x^2-3x+10", "x^2-3x-10"),
    ("\\begin{pmatrix}2&0\\\\5&-3\\end{pmatrix}", "\\begin{pmatrix} 2 & 5 \\\\ 0 & -3 \\end{pmatrix}"),
    ("D = (0, 4.5)", "D = (0, 4)"),
    ("[3,8]", "(3,8)"),
    ("1000", "729 \\text{ and } 1000"),
    ("729, 1000", "1000"),
    ("15", "\\pm 15"),
    ("18\\text{ m}", "18\\text{ cm}"),
    ("1:30", "11:30"),
    ("3500", "35\\%"),
    ("\\text{C}", "b"),
    ("7^{2000}", "5^{2000}"),
    ("7" * 50_000, "1"),
]


@pytest.mark.parametrize(("answer", "gold"), SAME)
def test_same(answer, gold):
    assert same_answer(answer, gold)


@pytest.mark.parametrize(("answer", "gold"), DIFFERENT)
def test_different(answer, gold):
    assert not same_answer(answer, gold)


@pytest.mark.parametrize(("one", "other"), [("3/4", "0.75"), ("(4,9)", "(4.0,9.0)"), ("\\{1,2\\}", "\\{2,1\\}")])
def test_like_typed_answers_may_be_swapped(one, other):
    assert same_answer(one, other)
    assert same_answer(other, one)


def test_what_a_model_writes_is_never_run(tmp_path):
    target = tmp_path / "made"
    assert not same_answer(f"__import__('os').mkdir('{target}')", "0")
    assert not target.exists()


def test_verdicts():
    verifier = MathVerifier()
    assert verifier("<think>\\boxed{31}</think> It is \\boxed{13}.", {"answer": "31"}).reward == 0.0
    assert verifier("<think>perhaps \\boxed{31}", {"answer": "31"}).reason == "thinking never ended"
    assert verifier("", {"answer": "31"}).reward == 0.0
    assert verifier("\\boxed{31}", {"answer": "31"}).passed
    assert verifier("\\boxed{31}", {"answer": "so it is \\boxed{31}"}).passed
    assert verifier("\\boxed{31}", {"answer": " "}).error is not None
