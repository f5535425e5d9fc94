"""The pool under fire. CI tries 850 samples; ``make test-nightly`` (HEADRACE_NIGHTLY=1) 10,400."""

import asyncio
import os
import random
import resource
import signal
import tempfile
import threading
import time

import pytest

from headrace.verifiers.pool import VerifierPool
from headrace.verifiers.spec import VerifierSpec
from tests.unit.verifiers.hostile import CODE_ROW, FUNCTION, ROW, code_samples, function_samples

NIGHTLY = bool(os.environ.get("HEADRACE_NIGHTLY"))
NUM_FUNCTION, SHARE = (2500, 0.15) if NIGHTLY else (150, 0.15)
NUM_CODE = 7500 if NIGHTLY else 300

pytestmark = pytest.mark.timeout(6 * 3600 if NIGHTLY else 300)


@pytest.fixture
def function(tmp_path):
    (tmp_path / "rewards.py").write_text(FUNCTION)
    return VerifierSpec(f"{tmp_path}/rewards.py:reward")


def run(samples, row, spec, log, *, time_limit_s, kills=0, seed=0):
    """Verdicts of all samples, the pool's figures and the largest growth of our own memory in bytes."""

    async def kill_some(pool):
        rng = random.Random(seed)
        for _ in range(kills):
            await asyncio.sleep(rng.uniform(0.05, 0.4))
            if pool.pids:
                os.kill(rng.choice(pool.pids), signal.SIGKILL)

    async def main():
        async with VerifierPool(spec, 3, time_limit_s, max_pending=64, memory_limit_mb=400, log_path=str(log)) as pool:
            killer = asyncio.create_task(kill_some(pool))
            verdicts = await asyncio.gather(*(pool.judge(completion, row) for completion, _ in samples))
            killer.cancel()
            return verdicts, pool.stats

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdicts, stats = asyncio.run(main())
    return verdicts, stats, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10


def left_over():
    """Command lines of processes that our samples started, and folders of verifiers that are no more."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
            with open(f"/proc/{name}/stat") as file:
                zombie = file.read().rpartition(")")[2].split()[0] == "Z"
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = f"HOSTILE_TEST={os.getpid()}".encode() in file.read().split(b"\0")
        except OSError:
            continue
        if not zombie and int(name) != os.getpid() and (ours or b"sleep\x00601" in line):
            found.append(line)
    return found


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """Every process of the test carries a mark; none is there afterwards, nor a folder or a big file."""
    monkeypatch.setenv("HOSTILE_TEST", str(os.getpid()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    yield
    deadline = time.monotonic() + 5
    while found := left_over():
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    assert not os.listdir(tmp_path / "temporary")


def test_functions(function, tmp_path, nothing_left):
    samples = function_samples(NUM_FUNCTION, SHARE, seed=1)
    log = tmp_path / "log"
    verdicts, stats, grown = run(samples, ROW, function, log, time_limit_s=0.2)
    assert stats.num_judged == len(samples)
    for (completion, expected), verdict in zip(samples, verdicts, strict=True):
        if expected is not None:
            assert verdict.reward == expected, (completion, verdict)
        else:
            assert not verdict.passed, (completion, verdict)
    assert stats.num_timeouts > 0
    assert stats.num_deaths > 0
    assert grown < 200 << 20
    assert log.stat().st_size < 2 << 30


def test_random_kills_lose_no_sample(function, tmp_path, nothing_left):
    """Killed from outside, a sample is tried again; one that is hit twice is wrong, and says so."""
    samples = [("nap", 1.0)] * 400
    verdicts, stats, _ = run(samples, ROW, function, tmp_path / "log", time_limit_s=5.0, kills=30, seed=3)
    assert stats.num_judged == 400
    assert stats.num_deaths > 3
    assert all(verdict.passed or "twice" in verdict.reason for verdict in verdicts)
    assert sum(verdict.passed for verdict in verdicts) > 390


@pytest.mark.parametrize("kills", [0, 5])
def test_programs(tmp_path, nothing_left, kills):
    samples = code_samples(NUM_CODE // 2, 0.4, seed=2)
    spec = VerifierSpec("code", answer_column="tests")
    verdicts, stats, grown = run(samples, CODE_ROW, spec, tmp_path / "log", time_limit_s=5.0, kills=kills, seed=5)
    assert stats.num_judged == len(samples)
    for (completion, expected), verdict in zip(samples, verdicts, strict=True):
        late = verdict.reason.startswith("time-out") or "twice" in verdict.reason  # a good one on a busy machine
        assert verdict.reward == expected or (verdict.reward == 0.0 and late), (completion, verdict)
    assert sum(v.reward == 1.0 for v in verdicts) > 0.8 * sum(expected for _, expected in samples)
    assert stats.num_errors == 0
    assert grown < 200 << 20


def test_limits_hold_in_a_thread(function, tmp_path, nothing_left):
    """No alarm is involved: the pool works where signals do not arrive."""
    found = []
    samples = [("hang", 0.0), ("say 7", 1.0)]
    thread = threading.Thread(
        target=lambda: found.extend(run(samples, ROW, function, tmp_path / "log", time_limit_s=0.2)[0])
    )
    thread.start()
    thread.join(60)
    assert [verdict.reward for verdict in found] == [0.0, 1.0]
    assert "time-out" in found[0].reason
