"""``headrace verify``: rows in, verdicts out, through real verifier processes."""

import json

import pytest

from headrace.cli.main import main

MATH = [
    {"id": "a", "gold": "17", "response": "first \\boxed{12}, no: \\boxed{17}"},
    {"id": 2, "gold": "17", "response": "\\boxed{12}"},
    {"id": "thought", "gold": 54, "response": "<think>\\boxed{54}</think>"},
    {"id": "anywhere", "gold": 54, "response": "<think>\\boxed{54}</think>", "answer_source": "anywhere"},
    {"id": "near", "gold": "200", "response": "\\boxed{220}", "tolerance": "10%"},
    {"id": "no gold", "gold": " ", "response": "\\boxed{1}"},
    {"id": "bad gold", "gold": "\\frac{1}{0}", "response": "\\boxed{1}"},
    {"id": "\ud800", "gold": "1", "response": "\ud800"},
]


@pytest.fixture
def verify(tmp_path, capsys):
    def run(lines, *options):
        source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        code = main(["verify", str(source), "--json", str(out), *options])
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        return code, rows, capsys.readouterr()

    return run


def test_rows_come_out_in_order(verify):
    code, rows, said = verify(MATH, "--verifier", "math")
    assert code == 0
    assert [(row["id"], row["verdict"], row["reward"]) for row in rows] == [
        ("a", "right", 1.0),
        (2, "wrong", 0.0),
        ("thought", "wrong", 0.0),
        ("anywhere", "right", 1.0),
        ("near", "right", 1.0),
        ("no gold", "cannot_judge", None),
        ("bad gold", "cannot_judge", None),
        ("\ud800", "wrong", 0.0),
    ]
    assert all(list(row) == ["id", "verdict", "reward", "reason", "time_s"] and row["time_s"] >= 0 for row in rows)
    assert rows[0]["reason"] == ""
    assert rows[1]["reason"] == "another answer"
    assert rows[6]["reason"] == "the gold fails its own verifier: another answer"
    assert said.out.startswith("8 rows: 3 right, 3 wrong, 2 cannot_judge; time p50 ")


BAD = [
    '{"id": "x", "gold": "1"',
    "[1]",
    {"gold": "1", "response": "1"},
    {"id": True, "gold": "1", "response": "1"},
    {"id": "x", "response": "1"},
    {"id": "x", "gold": ["1"], "response": "1"},
    {"id": "x", "gold": "1", "response": None},
    {"id": "x", "gold": "1", "response": "1", "tolerance": "much"},
    {"id": "x", "gold": "1", "response": "1", "percent": "any"},
    '{"id": "x", "gold": NaN, "response": "1"}',
]


@pytest.mark.parametrize("bad", BAD)
def test_a_malformed_row_is_named_by_its_line(verify, bad):
    code, rows, said = verify([MATH[0], "", bad], "--verifier", "math")
    assert (code, rows) == (2, [])
    assert "in.jsonl, line 3: " in said.err


def test_the_others_are_scored_with_keep_going(verify):
    code, rows, said = verify([BAD[0], MATH[0], BAD[2]], "--verifier", "math", "--keep-going")
    assert code == 2
    assert [row["verdict"] for row in rows] == ["right"]
    assert "in.jsonl, line 1: it is no JSON" in said.err
    assert "in.jsonl, line 3: id: found nothing" in said.err
    assert said.out.startswith("1 rows: 1 right, 0 wrong, 0 cannot_judge, 2 malformed;")


def test_without_a_file_rows_go_to_standard_output(tmp_path, capsys):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"id": 1, "gold": "yes", "response": "yes"}))
    assert main(["verify", str(source), "--verifier", "exact"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["verdict"] == "right"
    assert said.err.startswith("1 rows: 1 right")


def test_a_function_of_the_user_that_hangs_is_ended_and_wrong(verify, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import time\n"
        "def score(completions, gold, **_):\n"
        "    if 'hang' in completions[0]: time.sleep(60)\n"
        "    if 'unsure' in completions[0]: return [None]\n"
        "    return [float(c == g) for c, g in zip(completions, gold)]\n"
    )
    lines = [{"id": i, "gold": "yes", "response": text} for i, text in enumerate(["yes", "no", "hang", "unsure"])]
    code, rows, _ = verify(lines, "--verifier", f"{tmp_path}/mine.py:score", "--time-limit", "0.5", "--workers", "2")
    assert code == 0
    assert [row["verdict"] for row in rows] == ["right", "wrong", "wrong", "cannot_judge"]
    assert rows[2]["reason"] == "time-out: judging took more than 0.5 s, twice"


def test_code(verify):
    tests = [{"call": "double", "args": [4], "expect": 8}]
    lines = [
        {"id": "code", "code": "def double(x):\n    return 2 * x", "tests": tests},
        {"id": "fenced", "response": "Here:\n```python\ndef double(x):\n    return x\n```", "tests": tests},
        {"id": "io", "code": "print(int(input()) + 1)", "tests": [{"stdin": "1\n", "stdout": "2\n"}]},
        {"id": "none", "code": "x = 1", "tests": []},
    ]
    code, rows, said = verify(lines, "--verifier", "code", "--keep-going")
    assert code == 2
    assert [(row["id"], row["verdict"]) for row in rows] == [("code", "right"), ("fenced", "wrong"), ("io", "right")]
    assert "line 4: the tests: there is none" in said.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--verifier", "maths"], "Did you mean 'math'?"),
        (["--verifier", "nowhere.py:f"], "nowhere.py does not exist"),
        (["--verifier", "math", "--time-limit", "0"], "--time-limit: found 0"),
        (["--verifier", "math", "--json", "/nowhere/out"], "cannot be written"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, capsys, arguments, part):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(MATH[0]))
    assert main(["verify", str(source), *arguments]) == 2
    assert part in capsys.readouterr().err


def test_a_file_that_is_not_there_or_empty(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "none"), "--verifier", "math"]) == 2
    (tmp_path / "empty").write_text("\n")
    assert main(["verify", str(tmp_path / "empty"), "--verifier", "math"]) == 2
    said = capsys.readouterr().err
    assert "cannot be read" in said
    assert "has no rows" in said
