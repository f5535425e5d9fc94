"""Where the final answer of a text is."""

import pytest

from headrace.verifiers.math_answer import extract

BOXES = {
    "the last box decides": ("first \\boxed{12}, no: \\boxed{17}.", "17"),
    "a box far from the end": ("\\boxed{913}. " + "And so on. " * 500, "913"),
    "braces inside": ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
    "escaped braces inside": ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
    "fbox": ("\\fbox{7}", "7"),
    "a space before the brace": ("\\boxed {7}", "7"),
    "no braces": ("so \\boxed 7.", "7"),
    "a box in a box": ("\\boxed{\\boxed{7}}", "7"),
    "joined by a word": ("\\boxed{(2,9)} and \\boxed{(9,2)}", "(2,9), (9,2)"),
    "joined by commas": ("\\boxed{3}, \\boxed{7}, \\boxed{11}", "3, 7, 11"),
    "joined in their own formulas": ("\\[\\boxed{3}\\] and $\\boxed{5}$", "3, 5"),
    "joined by upright text": ("\\boxed{3}\\quad\\text{or}\\quad\\boxed{5}", "3, 5"),
    "joined in Chinese": ("\\boxed{3}、\\boxed{5}或\\boxed{7}", "3, 5, 7"),
    "said twice": ("\\boxed{5}, \\boxed{5}", "5"),
    "parted by text": ("\\boxed{3} was wrong, so \\boxed{7}", "7"),
    "an unclosed box before the last": ("\\boxed{\\frac{1}{2} oops. Final \\boxed{3}", "3"),
    "a percent sign behind the box": ("$\\boxed{28}\\%$ of them", "28\\%"),
    "after a backslash was doubled": ("\\\\boxed{5}", "5"),
}
NO_BOX_CONTENT = {
    "an empty box does not revive an earlier one": ("\\boxed{58}. Final: \\boxed{}", "empty box"),
    "an unfinished box does not either": ("\\boxed{58}. Final: \\boxed{5", "unfinished box"),
    "nor does one cut at its name": ("\\boxed{58}. Final: \\boxed", "unfinished box"),
    "one of several is empty": ("\\boxed{58}, \\boxed{}", "empty box"),
}
NAMED = {
    "The answer is 42": "42",
    "**Answer:** 42": "42",
    "Final answer: **42**": "42",
    "The final answer is $42$. I hope it is correct.": "42",
    "so the answer is $5/8$ as 1 < 2": "5/8",
    "The answer is 42 because geometry proves it": "42",
    "The answer is 42, since 6*7=42.": "42",
    "The answer is 12 or 13": "12 or 13",
    "The answer is $12$ and $13$": "12, 13",
    "The answer to the question is 7.": "7",
    "The answer is Harriet because she was faster.": "Harriet",
    "The correct answer is (B).": "(B)",
    "The correct option is B.": "B",
    "The answers are 3 and 4": "3 and 4",
    "The solutions are x=3 and x=4": "x=3 and x=4",
    "The answer is 7 2/5.": "7 2/5",
    "Answer: 3\nWait. Answer: 4": "4",
    "答案是42": "42",
    "所以最终答案为：42。": "42",
    "答案是3或4": "3或4",
    "<answer>41</answer> no: <answer>42</answer>": "42",
    "#### 42": "42",
    "The answer is 42.<|im_end|>\n<|im_start|>user\nAnd 43?": "42",
}
UNNAMED = {
    "first $1$ and then $2$": "2",
    "3 and 4 make 7": "7",
    "First compute 6*7.\n42": "42",
    "-1 + sqrt(3)": "-1 + sqrt(3)",
    "It is 5 or 6": "5 or 6",
    "maybe 5 or 6": "5, 6",
    "The largest $n$ is 34.": "34",
    "The train arrives at 11:30 AM.": "11:30 AM",
    "So it grows, as $x=2$ shows, by 100%.": "100%",
    "Therefore, 7 is the answer.": "7",
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes(name):
    text, answer = BOXES[name]
    found = extract(text)
    assert (found.answer, found.boxed) == (answer, True)


@pytest.mark.parametrize("name", NO_BOX_CONTENT)
def test_boxes_without_an_answer(name):
    text, reason = NO_BOX_CONTENT[name]
    found = extract(text)
    assert (found.answer, found.reason) == (None, reason)


@pytest.mark.parametrize("text", NAMED)
def test_named_answers(text):
    assert extract(text).answer == NAMED[text]


@pytest.mark.parametrize("text", UNNAMED)
def test_answers_that_nothing_names(text):
    assert extract(text).answer == UNNAMED[text]


def test_the_only_number_of_a_sentence_is_kept_beside_it():
    assert extract("Final Answer: Jane started 3 hours ago.").also == "3"
    assert extract("The answer is not 5.").also == ""
    assert extract("Answer: between 3 and 4 of them").also == ""


@pytest.mark.parametrize("text", ["", " \n ", "<answer> </answer>", "word " * 100, "__import__('os').remove('0')"])
def test_nothing(text):
    assert extract(text).answer is None
