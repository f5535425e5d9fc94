"""Python programs against tests, in a sandbox. What is expected never enters it; the verdict is made outside."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.records import Verdict
from headrace.verifiers.code_block import find_program
from headrace.verifiers.code_compare import from_json, same_output, same_value
from headrace.verifiers.code_tests import AssertTest, CallTest, CodeCase, CodeTest, StdinTest, TestsFault, read_case
from headrace.verifiers.sandbox import levels
from headrace.verifiers.sandbox.inside import frames
from headrace.verifiers.sandbox.session import GRACE_S, Limits, Question, Reply, Sandbox, SandboxEnded, SandboxError

ISOLATED = ("bubblewrap", "namespaces")
"""Levels that refuse asserts which cannot be rewritten, when the recipe demands one of them."""

_PROGRAMS_PER_SANDBOX = 500
_SIGXCPU, _SIGSYS = 24, 31


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """How programs are run. ``total_s``: all tests of a program together; ``limits``: of one test, unless the row has
    some.

    ``partial_credit``: the reward is the share of tests that pass (all run), instead of 1 for all of them (the first
    that fails ends it).
    """

    isolation: str = levels.BEST
    total_s: float = 10.0
    limits: Limits = field(default_factory=Limits)
    partial_credit: bool = False


def total_limit_s(row: Mapping[str, Any], options: CodeOptions) -> float:
    """Seconds that all tests of a row may take together: ``total_s``, or one test's limit where that is longer."""
    try:
        return max(options.total_s, read_case({**row, "tests": ["assert f()"]}, defaults=options.limits).limits.time_s)
    except TestsFault:
        return options.total_s


def outer_limit_s(row: Mapping[str, Any], options: CodeOptions) -> float:
    """When the pool ends a verifier that does not end by itself: two tries of a sandbox that fell silent, and slack."""
    return 2 * (total_limit_s(row, options) + GRACE_S) + 5.0


class CodeVerifier:
    """Reward 1 when the program in the response passes every test of the row, else 0 with the reason.

    Raises ``ConfigError`` when the machine does not give the demanded isolation. ``parts`` of a verdict:
    ``tests_passed`` (share), and ``in_process`` (asserts that could not be kept apart from the program).
    """

    name = "code"

    def __init__(self, answer_column: str = "answer", options: CodeOptions | None = None) -> None:
        self._answer_column, self._options = answer_column, options or CodeOptions()
        self.level = levels.choose(self._options.isolation).level
        self._sandbox: Sandbox | None = None
        self._programs = 0

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        try:
            case = read_case(row, self._answer_column, self._options.limits)
        except TestsFault as fault:
            return Verdict(reward=None, error=f"the tests: {fault}")
        if case.num_in_process and self._options.isolation in ISOLATED:
            shown = next(t.source for t in case.tests if isinstance(t, AssertTest) and t.in_process)
            return Verdict(
                reward=None,
                error=f"the tests: {case.num_in_process} asserts would run beside the program, which "
                f"reward.code.isolation '{self._options.isolation}' forbids: {shown[:100]!r}.",
            )
        block = find_program(completion)
        if block.code is None:
            return Verdict(reward=0.0, reason=block.reason)
        return self._judge(block.code, case, total_limit_s(row, self._options))

    def close(self) -> None:
        """End the sandbox."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _judge(self, code: str, case: CodeCase, total_s: float) -> Verdict:
        """Twice at most: a sandbox that ends is replaced once, for whichever reason it did."""
        for attempt in (1, 2):
            try:
                return self._attempt(code, case, total_s)
            except SandboxError:
                self.close()
                if attempt == 2:
                    raise  # ours to mend: an error, not a reward
            except SandboxEnded as ended:
                self.close()
                reason = f"the sandbox ended while the program ran, twice ({ended})"
        return Verdict(reward=0.0, reason=reason, answer=code[:200])

    def _attempt(self, code: str, case: CodeCase, total_s: float) -> Verdict:
        deadline, sandbox = time.monotonic() + total_s, self._ready()
        passed, first = 0, ""
        for number, test in enumerate(case.tests, 1):
            why = self._try(sandbox, code, test, case.limits, deadline)
            passed += not why
            if why and not first:
                first = f"{why} (test {number} of {len(case.tests)})"
            if why and not self._options.partial_credit:
                break
        sandbox.end_program()
        share = passed / len(case.tests)
        right = passed == len(case.tests)
        reward = share if self._options.partial_credit else float(right)
        parts = {"tests_passed": share} if self._options.partial_credit or right else {}
        if case.num_in_process:
            parts["in_process"] = float(case.num_in_process)
        return Verdict(reward=reward, passed=right, reason=first, parts=parts, answer=code[:200])

    def _ready(self) -> Sandbox:
        if self._programs >= _PROGRAMS_PER_SANDBOX:
            self.close()
        if self._sandbox is None:
            self._sandbox, self._programs = Sandbox(self.level), 0
        self._programs += 1
        return self._sandbox

    def _try(self, sandbox: Sandbox, code: str, test: CodeTest, limits: Limits, deadline: float) -> str:
        """Run one test; why it failed, or ''."""
        left = deadline - time.monotonic()
        if left <= 0:
            return "time-out: the tests took too long together"
        limits = Limits(min(limits.time_s, left), limits.memory_bytes, limits.output_bytes, limits.file_bytes)
        if isinstance(test, StdinTest):
            reply = sandbox.run_script(code, test.stdin.encode("utf-8", "surrogateescape"), limits)
            return _fault(reply, limits) or _judge_output(reply, test)
        reply = sandbox.ask(code, _questions(test), limits)
        return _fault(reply, limits) or _judge_answers(reply, test)


def _questions(test: CallTest | AssertTest) -> list[Question]:
    if isinstance(test, CallTest):
        return [(test.call, test.args)]
    if test.condition is None:
        return [("\n" + test.source, None)]
    return [(question, None) for question in test.condition.questions]


def _fault(reply: Reply, limits: Limits) -> str:
    """What ended the run before its time, or ''."""
    if reply.how == frames.TIMED_OUT or (reply.how == frames.SIGNALLED and reply.code == _SIGXCPU):
        return f"time-out: more than {limits.time_s:.3g} s"
    if reply.how == frames.TOO_MUCH_OUTPUT:
        return f"more output than {limits.output_bytes:,} bytes"
    last = _last_line(reply.errors)
    if last.startswith("MemoryError") or reply.result.startswith(b"EMemoryError"):
        return f"memory: more than {limits.memory_bytes >> 20} MB"
    if reply.how == frames.SIGNALLED and reply.code == _SIGSYS:
        return "the program tried what programs may not do: a new process, a signal to another one, or the like"
    if reply.how == frames.SIGNALLED:
        return f"the program was ended by signal {reply.code}"
    if reply.code:
        return f"the program ended with exit code {reply.code}{': ' + last[:200] if last else ''}"
    return ""


def _judge_output(reply: Reply, test: StdinTest) -> str:
    output = reply.output.decode("utf-8", "surrogateescape")
    if same_output(output, test.stdout, test.tolerance):
        return ""
    return "wrong output" if output.strip() else "no output"


def _judge_answers(reply: Reply, test: CallTest | AssertTest) -> str:
    """The result is text that the program's process wrote: it may be anything."""
    kind, body = reply.result[:1], reply.result[1:].decode("utf-8", "replace")
    if kind == b"E":
        return f"it raised {body[:200]}"
    if kind == b"N":
        return f"it returned {body[:200]}, which is no plain value"
    if kind != b"V":
        return "the program ended before it returned a value"
    try:
        values = from_json(body)
    except ValueError:
        return "it returned something unreadable"
    if not isinstance(values, list) or len(values) != len(_questions(test)):
        return "it returned something unreadable"
    return _judge_values(values, test)


def _judge_values(values: list[Any], test: CallTest | AssertTest) -> str:
    try:
        if isinstance(test, CallTest):
            right = same_value(values[0], test.expect, test.tolerance)
        elif test.condition is None:
            right = values[0] is True
        else:
            right = test.condition.holds(values, test.tolerance)
    except Exception as error:
        return f"the value cannot be compared: {type(error).__name__}"
    return "" if right else "wrong value"


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
