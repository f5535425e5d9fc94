import asyncio
import os
import time
from contextlib import asynccontextmanager

import pytest

from headrace.errors import ConfigError, DataError, VerifierBroken
from headrace.verifiers.pool import VerifierPool
from headrace.verifiers.self_check import run_self_check
from headrace.verifiers.spec import VerifierSpec

REWARD = """
import os, signal, time

def reward(completions, answer, **_):
    text = completions[0]
    if text == "hang":
        while True:
            pass
    if text == "exit":
        os._exit(3)
    if text == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "raise":
        raise ValueError("boom")
    if text == "once" and not os.path.exists(answer[0]):
        open(answer[0], "w").close()
        os._exit(1)
    print("what a function prints goes to the log")
    return [1.0 if text in (answer[0], "once") else 0.0]
"""

NUMBERS = VerifierSpec("number", options={"marker": "#"})


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "rewards.py").write_text(REWARD)
    return VerifierSpec(f"{tmp_path}/rewards.py:reward")


@pytest.fixture
def pool_of(tmp_path):
    @asynccontextmanager
    async def make(spec, num_workers=1, time_limit_s=5.0, **options):
        async with VerifierPool(spec, num_workers, time_limit_s, log_path=str(tmp_path / "log"), **options) as pool:
            yield pool

    return make


def judge_all(make, spec, completions, row, **options):
    async def run():
        async with make(spec, **options) as pool:
            verdicts = await asyncio.gather(*(pool.judge(c, row) for c in completions))
            return verdicts, pool.stats, pool.pids

    return asyncio.run(run())


def is_running(pid):
    return os.path.exists(f"/proc/{pid}")


def test_verdicts_come_back_to_whom_they_belong(pool_of):
    completions = [f"#{i}" for i in range(500)]
    verdicts, stats, pids = judge_all(pool_of, NUMBERS, completions, {"answer": "250"}, num_workers=2)
    assert [i for i, v in enumerate(verdicts) if v.passed] == [250]
    assert [v.answer for v in verdicts] == [str(i) for i in range(500)]
    assert stats.num_judged == 500
    assert len(pids) == 2
    assert not any(is_running(pid) for pid in pids)


def test_a_hang_is_ended_from_outside_tried_once_more_and_wrong(pool_of, spec):
    start = time.monotonic()
    verdicts, stats, _ = judge_all(pool_of, spec, ["1", "hang", "1", "2"], {"answer": "1"}, time_limit_s=0.3)
    assert [v.reward for v in verdicts] == [1.0, 0.0, 1.0, 0.0]
    assert verdicts[1].reason == "time-out: judging took more than 0.3 s, twice"
    assert (stats.num_timeouts, stats.num_deaths, stats.num_errors) == (2, 0, 0)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(("completion", "how"), [("exit", "exit code 3"), ("kill", "signal 9")])
def test_a_process_that_ends_is_replaced_and_its_sample_tried_once_more(pool_of, spec, completion, how):
    verdicts, stats, _ = judge_all(pool_of, spec, ["1", completion, "1"], {"answer": "1"})
    assert [v.reward for v in verdicts] == [1.0, 0.0, 1.0]
    assert verdicts[1].reason == f"the verifier process ended while judging it, twice ({how})"
    assert stats.num_deaths == 2


def test_a_process_that_ends_once_costs_nothing(pool_of, spec, tmp_path):
    verdicts, stats, _ = judge_all(pool_of, spec, ["once"], {"answer": str(tmp_path / "flag")})
    assert verdicts[0].passed
    assert stats.num_deaths == 1


def test_a_verifier_that_raises_is_an_error_and_no_reward(pool_of, spec):
    verdicts, stats, _ = judge_all(pool_of, spec, ["raise", "1"], {"answer": "1"})
    assert verdicts[0].reward is None
    assert verdicts[0].error == "ValueError: boom (rewards.py:14)"
    assert verdicts[1].passed
    assert stats.num_errors == 1


def test_prints_go_to_the_log(pool_of, spec, tmp_path):
    judge_all(pool_of, spec, ["1"], {"answer": "1"})
    assert "what a function prints" in (tmp_path / "log").read_text()


def test_a_row_that_cannot_travel_is_an_error(pool_of):
    verdicts, _, _ = judge_all(pool_of, NUMBERS, ["#1"], {"answer": "1", "handle": open(os.devnull)})  # noqa: SIM115
    assert "cannot be sent" in verdicts[0].error


def test_half_characters_survive_the_trip(pool_of):
    verdicts, _, _ = judge_all(pool_of, VerifierSpec("exact"), ["42\ud800"], {"answer": "42"})
    assert verdicts[0].answer == "42\ud800"


def test_callers_wait_when_too_many_are_pending(pool_of):
    verdicts, _, _ = judge_all(pool_of, NUMBERS, ["#1"] * 50, {"answer": "1"}, max_pending=3)
    assert all(v.passed for v in verdicts)


def test_a_verifier_that_cannot_be_built(pool_of, tmp_path):
    with pytest.raises(VerifierBroken, match=r"does not start: .*does not exist"):
        judge_all(pool_of, VerifierSpec(f"{tmp_path}/none.py:f"), ["1"], {}, num_workers=2)


def test_processes_follow_their_parent(tmp_path):
    """A controller that is killed leaves no verifier process behind."""
    import subprocess
    import sys

    code = (
        "import asyncio, os, signal\n"
        "from headrace.verifiers.pool import VerifierPool\n"
        "from headrace.verifiers.spec import VerifierSpec\n"
        "async def main():\n"
        "    pool = VerifierPool(VerifierSpec('exact'), 2)\n"
        "    await pool.start()\n"
        "    print(*pool.pids, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while any(is_running(pid) and not is_zombie(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_self_check_lists_golds_that_fail():
    checked = run_self_check(VerifierSpec("number"), [{"answer": "3"}, {"answer": "blue"}, {"answer": "#### 3,000"}])
    assert dict(checked.failed) == {1: "the gold answer 'blue' is not a number"}


def test_a_verifier_that_raises_on_the_first_row_is_a_users_mistake(spec):
    with pytest.raises(DataError, match=r"fails on the first row: ValueError: boom .*The row is \{'answer': 'raise'\}"):
        run_self_check(spec, [{"answer": "raise"}, {"answer": "1"}])


def test_a_function_that_is_not_there_is_a_users_mistake(spec):
    with pytest.raises(ConfigError, match="there is no function 'reword'"):
        run_self_check(VerifierSpec(spec.name.replace(":reward", ":reword")), [{"answer": "1"}])
