"""The verdicts of the code verifier on honest and on wrong programs, and what it makes of rows."""

import json

import pytest

from headrace.errors import ConfigError
from headrace.verifiers import code as code_module
from headrace.verifiers.code import CodeOptions, CodeVerifier, outer_limit_s
from headrace.verifiers.code_block import as_response, find_program
from headrace.verifiers.code_tests import TestsFault, read_case
from headrace.verifiers.sandbox import levels
from headrace.verifiers.sandbox.inside.seccomp import program
from headrace.verifiers.sandbox.session import Sandbox, SandboxEnded, SandboxError
from headrace.verifiers.self_check import run_self_check
from headrace.verifiers.spec import VerifierSpec


@pytest.fixture(scope="module")
def verifier():
    made = CodeVerifier("answer")
    yield made
    made.close()


def judge(verifier, code, *tests, **row):
    return verifier(as_response(code), {"tests": list(tests), **row})


INC = "def inc(x):\n    return x + 1"


@pytest.mark.parametrize(
    ("code", "stdin", "stdout"),
    [
        ("import sys\na, b = map(int, sys.stdin.buffer.readline().split())\nprint(a + b)", "8 9\n", "17"),
        ("import sys\nn = int(input())\nprint(n, len(sys.stdin.read().split()))", "2\n10 20\n", "2 2"),
        ("def main():\n    print(int(input()) * 3)\nif __name__ == '__main__':\n    main()", "5\n", "15"),
        ("print(open(0).read().strip())", "both\nlines\n", "both\nlines"),
        ("import sys\nsys.stdout.write('7')\nsys.exit()", "", "7"),
        ("import threading\nt = threading.Thread(target=lambda: print(input()))\nt.start()", "4", "4"),
        ("print(len(input()))", "x" * 300_000, "300000"),
        ("print('é', end='')", "", "é\n"),
        (
            "import tempfile\nwith tempfile.TemporaryFile() as f:\n    print(f.write(b'3'), f.seek(0), f.read())",
            "",
            "1 0 b'3'",
        ),
    ],
)
def test_programs_that_read_and_write(verifier, code, stdin, stdout):
    verdict = judge(verifier, code, {"stdin": stdin, "stdout": stdout})
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("code", "test"),
    [
        (INC, {"call": "inc", "args": [1], "expect": 2}),
        ("class S:\n    def inc(self, x):\n        return x + 1", {"call": "S().inc", "args": [1], "expect": 2}),
        ("pair = lambda a, b: (a, b)", {"call": "pair", "args": [1, 2], "expect": [1, 2]}),
        ("half = lambda x: x / 3 * 1.5", {"call": "half", "args": [5], "expect": 2.5}),
        ("f = lambda: {1: None}", {"call": "f", "args": [], "expect": {"1": None}}),
        ("from collections import Counter\nf = Counter", {"assert": "assert f('aab') == {'a': 2, 'b': 1}"}),
        (
            "f = lambda x: 2 ** x",
            {"assert": "assert f(200) == 1606938044258990275541962092341162602522202993782792835301376"},
        ),
        (INC, {"assert": "inc(1) == 2"}),
        (INC, {"assert": "assert inc(inc(1)) == 3 and not inc(-1), 'message'"}),
    ],
)
def test_programs_that_are_called(verifier, code, test):
    verdict = judge(verifier, code, test)
    assert verdict.passed, verdict.reason


def test_the_first_test_that_fails_is_named(verifier):
    tests = [{"call": "inc", "args": [1], "expect": 2}, {"call": "inc", "args": [1], "expect": 3}]
    verdict = judge(verifier, INC, *tests)
    assert (verdict.reward, verdict.passed) == (0.0, False)
    assert verdict.reason == "wrong value (test 2 of 2)"


def test_partial_credit_counts_the_same_tests():
    with_credit = CodeVerifier(options=CodeOptions(partial_credit=True))
    tests = [{"call": "inc", "args": [i], "expect": i + 1 if i < 10 else 0} for i in range(12)]
    verdict = judge(with_credit, INC, *tests)
    with_credit.close()
    assert verdict.reward == pytest.approx(10 / 12)
    assert not verdict.passed
    assert verdict.parts["tests_passed"] == pytest.approx(10 / 12)


def test_limits_of_a_row_and_of_all_tests_together(verifier):
    loop = "def inc(x):\n    while True:\n        pass"
    verdict = judge(verifier, loop, {"call": "inc", "args": [1], "expect": 2}, limits={"time_s": 0.2})
    assert verdict.reason == "time-out: more than 0.2 s (test 1 of 1)"
    short = CodeVerifier(options=CodeOptions(total_s=0.3, partial_credit=True))
    row = {"tests": [{"assert": "assert inc(1) == 2"}] * 5, "limits": {"time_s": 0.2}}
    verdict = short(as_response(loop), row)
    short.close()
    assert verdict.reward == 0.0
    assert outer_limit_s({"limits": {"time_s": 30}}, CodeOptions(total_s=1.0)) > 60


def test_asserts_that_cannot_be_rewritten_are_counted_and_refused_on_demand(verifier):
    test = {"assert": "import random\nassert inc(random.random()) < 3"}
    verdict = judge(verifier, INC, test)
    assert verdict.passed
    assert verdict.parts["in_process"] == 1.0
    if levels.probe("namespaces").fault:
        pytest.skip("no namespaces here")
    strict = CodeVerifier(options=CodeOptions(isolation="namespaces"))
    refused = judge(strict, INC, test)
    assert refused.reward is None
    assert "would run beside the program" in refused.error
    strict.close()


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"answer": "[]"}, "there is none"),
        ({}, "there is none"),
        ({"answer": "{"}, "no JSON"),
        ({"tests": [{"stdin": "1"}]}, "test 1 has the fields stdin"),
        ({"tests": [{"call": "f", "args": [1]}]}, "what is expected"),
        ({"tests": [{"call": "f", "args": 1, "expect": 1}]}, "args must be a list"),
        ({"tests": [{"assert": "1 +"}]}, "cannot be read"),
        ({"tests": [{"assert": "x = 1"}]}, "asserts nothing"),
        ({"tests": [{"assert": "assert f()"}], "limits": {"seconds": 1}}, "limits"),
        ({"tests": [{"assert": "assert f()"}], "limits": {"time_s": 0}}, "time_s must be a number > 0"),
        ({"tests": [{"assert": "assert f()"}], "tolerance": "1"}, "tolerance must be a number"),
    ],
)
def test_rows_that_cannot_be_used(verifier, row, part):
    verdict = verifier(as_response(INC), row)
    assert verdict.reward is None
    assert part in verdict.error
    with pytest.raises(TestsFault):
        read_case(row, "answer")


def test_tests_may_be_json_text_in_the_answer_column(verifier):
    row = {"answer": json.dumps([{"call": "inc", "args": [1], "expect": 2}])}
    assert verifier(as_response(INC), row).passed


@pytest.mark.parametrize(
    ("response", "code", "reason"),
    [
        ("```python\na\n```", "a", ""),
        ("```python\na\n```\nBetter:\n```py\nb\n```", "b", ""),
        ("```\na\n```", "a", ""),
        ("```python\na\n```\nIt prints\n```\nb\n```", "a", ""),
        ("```bash\na\n```", None, "no code block"),
        ("a = 1", None, "no code block"),
        ("", None, "empty"),
        ("```python\na\n```\n```python\nb", None, "the code block is never closed"),
        ("<think>```python\na\n```</think>```python\nb\n```", "b", ""),
        ("<think>```python\na\n```", None, "thinking never ended"),
        ("<think>```python\na\n```</think>done", None, "no code block"),
        ("````python\na = '''\n```\n'''\n````", "a = '''\n```\n'''", ""),
        ("1. Do\n   ```python\n   if a:\n       b\n   ```", "if a:\n    b", ""),
        ("```python\r\na\r\n```\r\n", "a", ""),
        ("```python title=x\na\n```", "a", ""),
    ],
)
def test_which_block_counts(response, code, reason):
    found = find_program(response)
    assert (found.code, found.reason) == (code, reason)


def test_any_program_fits_in_a_response():
    assert find_program(as_response("x = '````'\n```\n")).code == "x = '````'\n```\n"


def test_a_sandbox_that_ends_twice_is_wrong_and_one_that_does_not_start_is_an_error(monkeypatch):
    mine = CodeVerifier("answer")
    row = {"tests": [{"assert": "assert inc(1) == 2"}]}

    def ended(*_, **__):
        raise SandboxEnded("gone")

    monkeypatch.setattr(Sandbox, "ask", ended)
    assert mine(as_response(INC), row).reward == 0.0
    mine.close()

    def missing(*_, **__):
        raise SandboxError("no bwrap")

    monkeypatch.setattr(code_module, "Sandbox", missing)
    with pytest.raises(SandboxError, match="no bwrap"):
        mine(as_response(INC), row)


def test_more_isolation_than_there_is_is_a_mistake_in_the_recipe(monkeypatch):
    found = {name: levels.Found(name, "not here" if name != "rlimits" else "") for name in levels.LEVELS}
    monkeypatch.setattr(levels, "probe", found.__getitem__)
    assert levels.choose().level == "rlimits"
    message = r"reward.code.isolation 'bubblewrap' cannot be had here: bubblewrap: not here; allowed: rlimits\."
    with pytest.raises(ConfigError, match=message):
        levels.choose("bubblewrap")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_as_meant(machine):
    """A small interpreter of classic BPF runs the filter on calls whose fate is known."""
    column = {"x86_64": 0, "aarch64": 1}[machine]
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    rules = program(machine, 77)

    def fate(number, arguments=(), arch=arch):
        words = {0: number, 4: arch, **{16 + 8 * i: value for i, value in enumerate(arguments)}}
        place, value = 0, 0
        while True:
            code, yes, no, constant = rules[place]
            place += 1
            if code == 0x06:
                return {0x7FFF0000: "allow", 0x80000000: "kill", 0x00050001: "EPERM", 0x00050026: "ENOSYS"}[constant]
            if code == 0x20:
                value = words.get(constant, 0)
            else:
                true = {0x15: value == constant, 0x25: value > constant, 0x45: bool(value & constant)}[code]
                place += yes if true else no

    read, clone, kill, socket, ptrace = ((0, 63), (56, 220), (62, 129), (41, 198), (101, 117))
    assert fate(read[column]) == "allow"
    assert fate(read[column], arch=0x40000003) == "kill"
    assert fate(clone[column], [0x11]) == "kill"
    assert fate(clone[column], [0x10000]) == "allow"
    assert fate(435) == "ENOSYS"
    assert fate(kill[column], [77]) == "allow"
    assert fate(kill[column], [1]) == "kill"
    assert fate(socket[column]) == "EPERM"
    assert fate(ptrace[column]) == "kill"
    assert fate(500) == "ENOSYS"
    assert fate({"x86_64": 72, "aarch64": 25}[machine], [0, 8]) == "EPERM"
    assert fate({"x86_64": 72, "aarch64": 25}[machine], [0, 3]) == "allow"
    assert fate({"x86_64": 157, "aarch64": 167}[machine], [1]) == "EPERM"
    with pytest.raises(OSError, match="no system-call filter"):
        program("riscv64", 1)


def test_self_check_tries_reference_solutions_and_finds_bad_rows():
    tests = [{"call": "inc", "args": [1], "expect": 2}]
    rows = [
        {"tests": tests, "solution": INC},
        {"tests": tests},
        {"tests": tests, "solution": "def inc(x):\n    return x"},
        {"tests": []},
    ]
    checked = run_self_check(VerifierSpec("code", answer_column="tests"), rows)
    assert dict(checked.failed) == {
        2: "wrong value (test 1 of 1)",
        3: "the tests: there is none: at least one is needed.",
    }
