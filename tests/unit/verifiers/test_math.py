"""The verifier as a whole: verdicts, reasons, golds of every type, thinking, boxes, hostile responses."""

import math

import pytest

from headrace.config.load import load
from headrace.verifiers.math import MathVerifier, gold_text
from headrace.verifiers.math_options import MathOptions
from headrace.verifiers.spec import VerifierSpec, gold_completion, make_verifier, math_options, spec_of


@pytest.fixture(scope="module")
def verifier():
    return MathVerifier()


def judge(verifier, response, gold, **row):
    return verifier(response, {"answer": gold, **row})


@pytest.mark.parametrize(
    ("response", "gold", "reason"),
    [
        ("\\boxed{31}", "31", ""),
        ("\\boxed{31}", "so it is \\boxed{31}", ""),
        ("\\boxed{31}", "20 + 11 = 31\n#### 31", ""),
        ("\\boxed{0.5}", "$\\frac{1}{2}$", ""),
        ("odd $n$", "odd $n$", ""),
        ("", "31", "no answer"),
        ("I do not know.", "0", "another answer"),
        ("\\boxed{}", "31", "empty box"),
        ("\\boxed{31}. So \\boxed{3", "31", "unfinished box"),
        ("\\boxed{13}", "31", "another answer"),
        ("\\boxed{13, 31}", "31", "another answer"),  # hedging
        ("\\boxed{13}, \\boxed{31}", "31", "another answer"),
        ("13 or 31", "31", "another answer"),
        ("<think>\\boxed{31}</think> It is \\boxed{13}.", "31", "another answer"),
        ("<think>\\boxed{31}</think>", "31", "no answer"),
        ("<think>perhaps \\boxed{31}", "31", "thinking never ended"),
        ("<think>a</think> so <think>\\boxed{31}", "31", "thinking never ended"),
        ("it began elsewhere \\boxed{13}</think> The answer is 31.", "31", ""),
        ("\\boxed{31\x00}\x00", "31", ""),
        ("\ud800 \\boxed{31}", "31", ""),
        ("The answer is correct. Verdict: right. reward = 1", "31", "another answer"),
    ],
)
def test_verdicts(verifier, response, gold, reason):
    verdict = judge(verifier, response, gold)
    assert (verdict.reward, verdict.passed, verdict.reason) == (float(reason == ""), reason == "", reason)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (54, "54"),
        (0.5, "0.5"),
        (" 54 ", "54"),
        ("\\fbox{5}", "5"),
        ("steps\n#### 1,234", "1,234"),
        (True, None),
        (None, None),
        ("", None),
        (["54"], None),
        ("\\boxed{}", None),
    ],
)
def test_golds(value, text):
    assert gold_text(value) == text


def test_a_gold_that_is_none_cannot_be_judged(verifier):
    for gold in (" ", None, ["54"], math.nan, math.inf):
        assert judge(verifier, "\\boxed{1}", gold).reward is None
    assert "empty or no text" in judge(verifier, "\\boxed{1}", None).error
    assert verifier("\\boxed{1}", {}).reward is None


def test_a_row_has_the_last_word_on_options(verifier):
    thought = "<think>\\boxed{31}</think>"
    assert judge(verifier, thought, "31", answer_source="anywhere").passed
    assert not judge(
        MathVerifier(options=MathOptions(answer_source="anywhere")), thought, "31", answer_source="after_think"
    ).passed
    assert judge(verifier, "\\boxed{220}", "200", tolerance="10%").passed
    assert judge(verifier, "\\boxed{0.29}", "2/7", rounding_digits=2).passed
    assert not judge(verifier, "\\boxed{35}", "35\\%", percent="hundredth").passed
    assert judge(verifier, "\\boxed{35}", "35\\%", percent=None).passed
    assert judge(verifier, "\\boxed{1}", "1", tolerance="much").error.startswith("tolerance: found 'much'")


@pytest.mark.parametrize(
    "repeated", ["\\boxed{", "\\boxed{1},", "\\(", "$", "1,", "answer is ", "\n", "{", "<answer>", "-"]
)
def test_floods_have_no_answer_that_is_right(verifier, repeated):
    assert judge(verifier, repeated * 50_000, "7").reward == 0.0


def test_a_response_of_many_megabytes_is_refused(verifier):
    assert judge(verifier, "a" * 5_000_000, "7").reason == "the response is too long"


def test_options_come_from_the_recipe(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "task: {name: file, path: a.jsonl}\nreward: {verifier: math, math: {percent: hundredth, tolerance: 10%}}\n"
    )
    spec = spec_of(load(tmp_path / "a.yaml", []).recipe)
    assert math_options(spec) == MathOptions(percent="hundredth", tolerance="10%")
    assert make_verifier(spec)("\\boxed{220}", {"answer": "200"}).passed


def test_no_recipe_gives_text_more_than_a_second():
    assert VerifierSpec("math").outer_limit_s({}, 5.0) == 1.0
    assert VerifierSpec("exact").outer_limit_s({}, 0.2) == 0.2
    assert VerifierSpec("mine.py:f").outer_limit_s({}, 5.0) == 5.0


def test_a_gold_in_the_form_the_verifier_reads():
    spec = VerifierSpec("math")
    for gold in ("5", "20 + 11\n#### 31", "so \\boxed{\\{1,2\\}}", 0.5):
        assert make_verifier(spec)(gold_completion(spec, {"answer": gold}), {"answer": gold}).passed
