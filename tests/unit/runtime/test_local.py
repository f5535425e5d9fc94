"""Environments, messages and orphans: what needs no process tree."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import headrace
from headrace.errors import ChannelClosed, DataError
from headrace.runtime import orphans
from headrace.runtime.local import role_environment
from headrace.runtime.outcome import died, first_cause, how_it_ended
from headrace.runtime.role_host import describe
from headrace.runtime.role_spec import RoleSpec


class EndedRole:
    """What the messages are made of, without a process."""

    def __init__(self, exit_code=None, failure=None, tail=()):
        self.name, self.exit_code, self.failure = "trainer", exit_code, failure
        self.started_at, self.ended_at, self.log_path = 100.0, 112.5, Path("RUN/logs/trainer.log")
        self.lost = failure is not None and failure.channel_closed
        self.log_tail = lambda: list(tail)


def test_how_it_ended_says_role_cause_and_time():
    assert how_it_ended(EndedRole(-9)) == "trainer was ended by SIGKILL after 12.5 s (by the system, if memory ran out)"
    assert how_it_ended(EndedRole(-11)) == "trainer was ended by SIGSEGV after 12.5 s"
    assert how_it_ended(EndedRole(3)) == "trainer ended with exit code 3 after 12.5 s"
    assert how_it_ended(EndedRole(0)) == "trainer ended after 12.5 s, although the run was not over"
    assert how_it_ended(EndedRole(1, describe(ValueError("x")))) == "trainer failed after 12.5 s: ValueError: x"


def test_died_ends_with_the_log():
    error = died(EndedRole(3, tail=["one", "two"]))
    assert str(error) == (
        "trainer ended with exit code 3 after 12.5 s\nLast lines of RUN/logs/trainer.log:\n  one\n  two"
    )
    assert (error.role, error.exit_code) == ("trainer", 1)
    error = died(EndedRole(2, describe(DataError("row 3 is empty")), tail=["Traceback"]))
    assert str(error) == "trainer: row 3 is empty"
    assert error.exit_code == 2


def test_the_cause_is_not_the_role_that_lost_a_channel():
    lost = EndedRole(1, describe(ChannelClosed("the channel to generator-0 is closed")))
    killed = EndedRole(-9)
    assert first_cause([lost, killed]) is killed
    assert first_cause([killed, lost]) is killed
    assert first_cause([lost]) is lost


def test_describe_keeps_the_chain_and_the_exit_code():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise DataError("outer") from inner
    except DataError as error:
        failure = describe(error)
    assert (failure.error_type, failure.message, failure.exit_code, failure.headrace_error) == (
        "DataError",
        "outer",
        2,
        True,
    )
    assert "KeyError: 'inner'" in failure.traceback


def test_role_environment_finds_the_package_first_and_keeps_what_was_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(tmp_path / "mine")]))
    spec = RoleSpec(role="generator", name="generator-0", factory="m:f", threads=2, env={"CUDA_VISIBLE_DEVICES": "1"})
    environment = role_environment(spec, "run-7", [str(tmp_path / "extra")])
    root = str(Path(headrace.__file__).resolve().parents[1])
    found = environment["PYTHONPATH"].split(os.pathsep)
    assert found in (
        [root, str(tmp_path / "extra"), str(tmp_path / "mine")],
        [str(tmp_path / "extra"), str(tmp_path / "mine")],
    )
    assert environment["MKL_NUM_THREADS"] == environment["OMP_NUM_THREADS"] == "2"
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment["HEADRACE_RUN_ID"] == "run-7"


def test_orphans_are_found_by_run_id_and_ended():
    run_id = uuid.uuid4().hex
    sleepers = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={orphans.RUN_ID_VARIABLE: name})
        for name in (run_id, run_id, run_id + "0")
    ]
    try:
        mine = {sleepers[0].pid, sleepers[1].pid}
        assert set(orphans.find(run_id)) == mine
        assert orphans.find(run_id, exclude=[sleepers[0].pid]) == [sleepers[1].pid]
        assert "time.sleep(60)" in orphans.command_line(sleepers[0].pid)
        assert set(orphans.wait_gone(run_id, timeout_s=0.0)) == mine
        assert orphans.end(run_id) == []
        assert sleepers[2].poll() is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    assert orphans.command_line(sleepers[0].pid) == ""
