"""The bundled problems: worked-out values, disjoint splits, determinism and answer extraction."""

from itertools import islice

import pytest

from headrace.tasks.arithmetic import (
    DIGITS_PERCENT,
    ArithmeticSource,
    Problem,
    extract_answer,
    gold,
    make_problem,
    split_of,
)


def test_worked_out_values():
    assert gold(Problem(347, "+", 85)) == "432"
    assert gold(Problem(432, "-", 85)) == "347"
    assert gold(Problem(99999, "+", 1)) == "100000"
    assert gold(Problem(70, "-", 70)) == "0"
    assert Problem(347, "+", 85).prompt == "347+85="
    assert Problem(432, "-", 85).answer == "347"


def test_rows_say_what_their_problem_says():
    for index, row in enumerate(islice(ArithmeticSource("train", seed=5), 200)):
        problem = make_problem(index, split="train", seed=5)
        longer = max(problem.left, problem.right)
        assert row == {
            "prompt": problem.prompt,
            "answer": problem.answer,
            "operator": problem.operator,
            "num_digits": len(str(longer)),
        }
        assert eval(str(row["prompt"]).rstrip("=")) == int(str(row["answer"])) >= 0
        assert min(problem.left, problem.right) >= 1


def test_the_stream_never_changes():
    """Values of the first release: a published run can be repeated only as long as these hold."""
    assert [ArithmeticSource("train", 0)[i]["prompt"] for i in range(4)] == ["3322-996=", "87-82=", "47-2=", "426-43="]
    assert [ArithmeticSource("held_out", 0)[i]["prompt"] for i in range(4)] == [
        "72+540=",
        "19+1018=",
        "63-10=",
        "91+3302=",
    ]


def test_an_index_is_the_same_problem_in_any_order():
    source = ArithmeticSource("train", seed=3)
    forward = [source[i]["prompt"] for i in range(100)]
    assert [source[i]["prompt"] for i in reversed(range(100))] == forward[::-1]
    assert [ArithmeticSource("train", seed=4)[i]["prompt"] for i in range(100)] != forward


def test_splits_share_no_problem_whatever_the_seed():
    train = {make_problem(i, split="train", seed=i % 7) for i in range(20_000)}
    held_out = {make_problem(i, split="held_out", seed=i % 3) for i in range(3_000)}
    assert len(held_out) > 2_000
    assert not train & held_out
    swapped = {Problem(p.right, "+", p.left) for p in held_out if p.operator == "+"}
    assert not train & swapped
    assert all(split_of(p) == "held_out" for p in held_out | swapped)


def test_lengths_follow_the_table():
    rows = list(islice(ArithmeticSource("train", seed=1), 4_000))
    for num_digits, percent in DIGITS_PERCENT.items():
        found = 100 * sum(row["num_digits"] == num_digits for row in rows) / len(rows)
        assert found == pytest.approx(percent, abs=4)
    assert sum(row["operator"] == "-" for row in rows) / len(rows) == pytest.approx(0.5, abs=0.05)


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="-1"):
        make_problem(-1, split="train", seed=0)
    with pytest.raises(ValueError, match="'test'; allowed: train, held_out"):
        make_problem(0, split="test", seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("7+5=12 4+8+1=13 3+1=4#432", "432"),
        ("#432", "432"),
        ("# 432\n", "432"),
        ("#-5", "-5"),
        ("#0432", "0432"),
        ("#1#2", "2"),
        ("", None),
        ("432", None),
        ("#", None),
        ("#432.", None),
        ("#432 433", None),
        ("#4 32", None),
        ("#432#", None),
        ("#--5", None),
        ("#٣", None),
    ],
)
def test_answer_extraction(completion, answer):
    assert extract_answer(completion) == answer
