"""Exact and number: what is right, what is wrong, and what cannot be judged."""

import pytest

from headrace.verifiers.exact import ExactVerifier
from headrace.verifiers.number import NumberVerifier
from headrace.verifiers.reasoning_gym import read_answer


@pytest.mark.parametrize(
    ("completion", "reward", "reason"),
    [
        (" yes \n", 1.0, ""),
        ("<think>no</think>yes", 1.0, ""),
        ("Yes", 0.0, "not the gold text"),
        ("yes!", 0.0, "not the gold text"),
        ("  ", 0.0, "empty"),
        ("<think>yes", 0.0, "thinking never ended"),
    ],
)
def test_exact(completion, reward, reason):
    verdict = ExactVerifier()(completion, {"answer": "yes"})
    assert (verdict.reward, verdict.passed, verdict.reason) == (reward, reward == 1.0, reason)


@pytest.mark.parametrize(
    ("completion", "gold", "reward"),
    [
        ("12+30=42", "42", 1.0),
        ("#### 1,000", "1000", 1.0),
        ("0.75", "3/4", 1.0),
        ("42", "she has 40+2.\n#### 42", 1.0),  # a worked solution as gold
        ("42 dollars", "41", 0.0),
        ("", "41", 0.0),
        ("I do not know.", "0", 0.0),
        ("<think>41</think> I cannot say", "41", 0.0),
    ],
)
def test_number(completion, gold, reward):
    assert NumberVerifier()(completion, {"answer": gold}).reward == reward


@pytest.mark.parametrize(
    ("completion", "reward", "reason"),
    [
        ("2+5=7#432", 1.0, ""),
        ("432", 0.0, "no answer after '#'"),
        ("#12 432", 0.0, "not a number"),
        ("#432#", 0.0, "no answer after '#'"),
        ("#432#9", 0.0, "another number"),
    ],
)
def test_number_behind_a_marker_only(completion, reward, reason):
    verdict = NumberVerifier(marker="#")(completion, {"answer": "432"})
    assert (verdict.reward, verdict.reason) == (reward, reason)


def test_a_gold_that_is_no_number_is_not_the_responses_fault():
    verdict = NumberVerifier()("42", {"answer": "blue"})
    assert verdict.reward is None
    assert verdict.error == "the gold answer 'blue' is not a number"


def test_the_answer_column_can_have_another_name():
    assert NumberVerifier("solution")("2", {"solution": "2"}).passed


@pytest.mark.parametrize(
    ("text", "gold", "answer"),
    [
        ("<answer>4</answer> or <answer> 5 </answer>", "5", "5"),
        ("<answer>4", "4", None),
        ("so 3 + 1 is 4.", "4", "4"),
        ("The answer is blue.", "blue", "blue"),
        ("first\nblue\n", "blue", "blue"),
        ("", "blue", None),
    ],
)
def test_answers_of_generated_problems(text, gold, answer):
    assert read_answer(text, gold=gold) == answer
