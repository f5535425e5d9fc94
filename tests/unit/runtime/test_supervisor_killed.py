"""The supervisor as a program, interrupted or killed from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.runtime import orphans

PROGRAM = Path(__file__).parent / "supervise.py"


class Program:
    """A supervisor in a process of its own; ``until`` reads what it prints."""

    def __init__(self, folder, mode, grace_s=20.0):
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, folder, mode, str(grace_s)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.run_id = self.until("id")["id"]

    def until(self, key, value=None):
        for line in self.process.stdout:
            event = json.loads(line)[1]
            if key in event and value in (None, event[key]):
                return event
        raise AssertionError(f"the supervisor ended without a word of {key}")

    def wait_gone(self, timeout_s):
        """Seconds until no process carries the run's id."""
        started = time.monotonic()
        left = orphans.wait_gone(self.run_id, timeout_s=timeout_s)
        assert left == [], [orphans.command_line(pid) for pid in left]
        return time.monotonic() - started


@pytest.mark.parametrize("mode", ["grandchildren", "busy", "deaf"])
def test_kill_9_of_the_supervisor(tmp_path, mode):
    shared_files = set(os.listdir("/dev/shm"))
    program = Program(tmp_path, mode)
    program.until("round")
    # Controller, two workers, the watchman; two grandchildren with a child each.
    assert len(orphans.find(program.run_id)) >= (8 if mode == "grandchildren" else 4)
    program.process.kill()
    assert program.wait_gone(5.0) < 5.0
    program.process.wait()
    assert set(os.listdir("/dev/shm")) <= shared_files


def test_kill_9_of_the_supervisor_and_of_the_watchman(tmp_path):
    program = Program(tmp_path, "slow")
    program.until("round")
    (watchman,) = [pid for pid in orphans.find(program.run_id) if "watchman.py" in orphans.command_line(pid)]
    os.kill(watchman, signal.SIGKILL)
    program.until("round")  # the run does not depend on it
    program.process.kill()
    program.wait_gone(5.0)
    program.process.wait()


def test_kill_9_of_a_supervisor_that_is_starting(tmp_path):
    program = Program(tmp_path, "count")
    program.until("event", "started")
    program.process.kill()
    program.wait_gone(5.0)
    program.process.wait()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_ends_with_a_checkpoint(tmp_path, signum, code):
    program = Program(tmp_path, "slow")
    program.until("round")
    program.process.send_signal(signum)
    outcome = program.until("status")
    assert outcome == {"status": "stopped", "num_orphans": 0, "unfinished": []}
    assert program.process.wait(10.0) == code
    assert (tmp_path / "checkpoint").read_text() == "interrupted"
    program.wait_gone(0.0)


def test_ctrl_c_in_a_terminal_reaches_the_whole_group_of_the_supervisor_only(tmp_path):
    program = Program(tmp_path, "slow")
    program.until("round")
    os.killpg(program.process.pid, signal.SIGINT)
    assert program.until("status")["status"] == "stopped"
    assert program.process.wait(10.0) == 130


def test_a_second_ctrl_c_kills(tmp_path):
    program = Program(tmp_path, "deaf", grace_s=60.0)
    program.until("round")
    program.process.send_signal(signal.SIGINT)
    program.until("event", "stopping")
    time.sleep(0.7)
    program.process.send_signal(signal.SIGINT)
    outcome = program.until("status")
    assert outcome["status"] == "killed"
    assert "controller" in outcome["unfinished"]
    assert program.process.wait(10.0) == 130
    program.wait_gone(0.0)
