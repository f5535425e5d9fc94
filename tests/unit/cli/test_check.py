"""``check --data``: what is wrong with rows, found with the bundled model's tokenizer and real verifier processes."""

import json

import pytest

from headrace.cli.main import main


@pytest.fixture
def check(tmp_path, capsys):
    def run(rows, *overrides, text=None, reward="number"):
        body = text if text is not None else "\n".join(map(json.dumps, rows))
        (tmp_path / "rows.jsonl").write_text(body)
        (tmp_path / "recipe.yaml").write_text(f"task: {{name: file, path: rows.jsonl}}\nreward: '{reward}'\n")
        code = main(["check", str(tmp_path / "recipe.yaml"), "--data", *overrides])
        captured = capsys.readouterr()
        return code, captured.out if code == 0 else captured.err

    return run


def rows(count, answer=lambda i: str(2 * i)):
    return [{"prompt": f"{i}+{i}=", "answer": answer(i)} for i in range(count)]


def test_good_rows(check):
    code, out = check(rows(40), "eval.num_prompts=4")
    assert code == 0
    assert "training: 36 rows" in out
    assert "held out: 4 rows" in out
    assert "36 rows tried, 0 gold answers not accepted" in out
    assert "nothing to complain about" in out


def test_duplicates_and_overlap(check, tmp_path):
    (tmp_path / "eval.jsonl").write_text(json.dumps(rows(1)[0]))
    code, out = check([*rows(10), *rows(3)], f"task.eval_path={tmp_path / 'eval.jsonl'}", "eval.num_prompts=1")
    assert code == 0
    assert "3 training rows repeat another one's" in out
    assert "1 held-out problems are training problems too" in out


def test_dropped_rows_are_counted(check):
    text = "\n".join([*map(json.dumps, rows(20)), "{broken", json.dumps({"prompt": "1" * 300, "answer": "1"})])
    code, out = check([], "task.bad_rows=drop", "eval.num_prompts=2", text=text)
    assert code == 0
    assert "2 rows dropped; the first, row 21: not valid JSON" in " ".join(out.split())


def test_golds_that_the_verifier_refuses(check):
    code, error = check(rows(20, answer=lambda i: "blue"))
    assert code == 2
    assert "18 of 18 gold answers are not accepted by the verifier 'number' itself" in error
    assert "reward.max_error_frac 0.05" in error


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"prompt": "1", "answer": "1"}\n{broken', "rows.jsonl, row 2: not valid JSON"),
        ('{"question": "1", "solution": "1"}', "the columns are: question, solution"),
        ("", "the data set is empty"),
        (json.dumps({"prompt": "1" * 300, "answer": "1"}), "row 1: the prompt has 300 tokens"),
    ],
)
def test_bad_rows_end_with_2(check, text, part):
    code, error = check([], text=text)
    assert code == 2
    assert part in error
    assert error.count("\n") == 1


def test_a_verifier_that_raises_on_the_first_real_row(check, tmp_path):
    (tmp_path / "mine.py").write_text("def reward(completions, answer):\n    return [1 / 0]\n")
    code, error = check(rows(20), reward="mine.py:reward")
    assert code == 2
    assert "fails on the first row: ZeroDivisionError: division by zero (mine.py:2)" in error
    assert "'answer': " in error


def test_a_missing_file_is_found_without_data(tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text("task: {name: file, path: none.jsonl}\nreward: exact\n")
    assert main(["check", str(tmp_path / "recipe.yaml")]) == 2
    assert "none.jsonl does not exist" in capsys.readouterr().err


def test_a_model_folder_that_is_none(tmp_path, capsys):
    assert main(["check", "demo", f"model.path={tmp_path}"]) == 2
    assert "is not a Hugging Face model" in capsys.readouterr().err


def test_the_demo_is_fine(capsys):
    assert main(["check", "demo", "--data"]) == 0
    assert "nothing to complain about" in capsys.readouterr().out


def test_texts_of_an_interruption_are_tried_with_the_models_tokenizer(check):
    part = [f"algorithm.interruption.{key}" for key in ("low=6", "high=10", "answer_tokens=8")]
    code, out = check(rows(40), *part, "algorithm.interruption.text=Stop")
    assert code != 0
    assert "algorithm.interruption.text: " in out
    assert "no token for 'S' in the text 'Stop'" in out
    limits = ["algorithm.interruption.text=time is up", "sampling.max_completion_tokens=27"]  # 10 + 10 + 8 = 28
    code, out = check(rows(40), *part, *limits)
    assert code != 0
    assert "takes up to 28 tokens (high 10 + 10 of the injected text + answer_tokens 8)" in out
    code, out = check(rows(40), *part, limits[0], "eval.num_prompts=4")
    assert code == 0


def code_rows(count, test):
    return [
        {"prompt": f"add {i}", "answer": json.dumps([test]), "solution": "add = lambda a, b: a + b"}
        for i in range(count)
    ]


def test_code_says_how_programs_are_shut_in(check):
    code, out = check(code_rows(20, {"call": "add", "args": [1, 2], "expect": 3}), "eval.num_prompts=2", reward="code")
    assert code == 0
    assert "code isolation: " in out
    assert "18 rows tried, 0 gold answers not accepted" in out


def test_code_rows_whose_solution_fails_or_whose_tests_are_no_tests(check):
    code, error = check(code_rows(20, {"call": "add", "args": [1, 2], "expect": 4}), reward="code")
    assert code == 2
    assert "(wrong value (test 1 of 1))" in error
    code, error = check(code_rows(20, {"call": "add"}), reward="code")
    assert code == 2
    assert "the tests: test 1: a call needs what is expected of it" in error


def test_asserts_beside_the_program_are_counted(check):
    test = {"assert": "x = 1\nassert add(x, 1) == 2"}
    code, out = check(code_rows(20, test), "eval.num_prompts=2", reward="code")
    assert code == 0
    assert "18 asserts of 18 rows cannot be rewritten" in " ".join(out.split())


def test_isolation_without_programs_is_a_mistake(check):
    code, error = check(rows(20), "reward.code.isolation=rlimits")
    assert code == 2
    assert "reward.code fights reward.verifier 'number'" in error
