"""The supervisor with real processes: how runs end, what is said, and that nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from headrace.errors import HeadraceError, RoleDied, WaitTimeout
from headrace.runtime import orphans
from headrace.runtime.role_spec import RoleSpec


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Killer:
    """An event callback that sends a signal to a role after its first round."""

    def __init__(self, role, signum=signal.SIGKILL):
        self.role, self.signum, self.pids, self.killed = role, signum, {}, False

    def __call__(self, name, event):
        if event.get("event") == "started":
            self.pids[event["role"]] = event["pid"]
        if "round" in event and not self.killed:
            self.killed = True
            os.kill(self.pids[self.role], self.signum)


def test_a_run_that_ends_well(supervise):
    events = []
    supervisor = supervise()
    outcome = supervisor.run(lambda name, event: events.append((name, event)))
    assert outcome.status == "done"
    assert outcome.exit_code == 0
    assert outcome.num_orphans == 0
    # Two workers double 0, 1 and 2: 2 * (0 + 2 + 4).
    assert outcome.result == {"total": 12, "rounds": 3}
    assert [event["total"] for name, event in events if name == "controller"] == [0, 4, 12]
    ended = {event["role"]: event["exit_code"] for name, event in events if event.get("event") == "ended"}
    assert ended == {"controller": 0, "worker-0": 0, "worker-1": 0}
    assert orphans.find(supervisor.run_id) == []


def test_the_process_of_a_role(supervise_specs, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    spec = RoleSpec(role="probe", name="probe", factory="toy_roles:Environment", threads=3, env={"EXTRA": "x"})
    supervisor = supervise_specs(spec, primary="probe")
    assert supervisor.run().result == {
        "threads": "3",
        "extra": "x",
        "run_id": supervisor.run_id,
        "leads_group": True,
        "torch": False,
        "grandchild_ignores": "False",
    }


def test_weights_go_through_shared_memory(supervise_specs):
    publisher = RoleSpec(role="trainer", name="controller", factory="toy_roles:Publisher", args={"num_versions": 5})
    reader = RoleSpec(role="generator", name="reader", factory="toy_roles:Reader")
    result = supervise_specs(publisher, reader).run().result
    assert result == [(version, version * 100_000) for version in range(5)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("raises", "worker-1 failed after"),
        ("leaves", "worker-1 ended after"),
        ("code", "worker-1 ended with exit code 5"),
        ("crashes", "worker-1 was ended by SIGSEGV"),
    ],
)
def test_a_role_that_ends_early_is_named(supervise, tmp_path, mode, expected):
    supervisor = supervise(("double", mode))
    with pytest.raises(RoleDied, match=expected) as caught:
        supervisor.run()
    assert caught.value.role == "worker-1"
    assert caught.value.exit_code == 1
    if mode == "raises":
        message = str(caught.value)
        assert "ZeroDivisionError" in message.splitlines()[0]
        assert f"Last lines of {tmp_path}/logs/worker-1.log" in message
        assert "about to divide by zero" in message
    if mode == "crashes":  # faulthandler says where
        assert "Fatal Python error: Segmentation fault" in (tmp_path / "logs" / "worker-1.log").read_text()
    assert supervisor.num_orphans == 0
    assert orphans.find(supervisor.run_id) == []


def test_a_mistake_of_the_users_keeps_its_words_and_exit_code(supervise):
    with pytest.raises(RoleDied) as caught:
        supervise(("user_mistake",)).run()
    assert str(caught.value) == "worker-0: row 7 of rows.jsonl has no column 'answer'"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("role", ["controller", "worker-0"])
def test_kill_9_of_a_role(supervise, role):
    supervisor = supervise(controller="slow", rounds=10_000)
    with pytest.raises(RoleDied, match=f"^{role} was ended by SIGKILL") as caught:
        supervisor.run(Killer(role))
    assert caught.value.role == role
    assert supervisor.num_orphans == 0
    assert orphans.find(supervisor.run_id) == []


@pytest.mark.parametrize("fate", ["ends", "killed"])
def test_grandchildren_end_with_the_run(supervise, fate):
    started = []
    killer = Killer("controller" if fate == "killed" else "nobody")
    killer.killed = fate == "ends"

    def watch(name, event):
        if "grandchild" in event:
            started.extend(event.values())
            assert all(alive(pid) for pid in started)
        killer(name, event)

    supervisor = supervise(controller="grandchildren", rounds=3 if fate == "ends" else 10_000)
    if fate == "killed":
        with pytest.raises(RoleDied, match="controller was ended by SIGKILL"):
            supervisor.run(watch)
    else:
        supervisor.run(watch)
    assert len(started) == 2
    assert not any(alive(pid) for pid in started)
    # What left the role's group is found by the run's id (the process and its own child), counted, and killed.
    assert supervisor.num_orphans == 2
    assert orphans.find(supervisor.run_id) == []


def test_a_request_to_stop_reaches_the_controller_first(supervise, tmp_path):
    supervisor = supervise(controller="slow", rounds=10_000)
    threading.Timer(1.0, supervisor.request_stop, [signal.SIGTERM]).start()
    outcome = supervisor.run()
    assert outcome.status == "stopped"
    assert outcome.exit_code == 143
    assert outcome.unfinished == ()
    assert (tmp_path / "checkpoint").read_text() == "interrupted"
    assert outcome.result["rounds"] < 10_000


@pytest.mark.parametrize("mode", ["deaf", "busy"])
def test_a_stuck_controller_is_killed_after_the_grace_time(supervise, mode):
    supervisor = supervise(controller=mode, grace_s=0.5)

    def stop_after_a_round(name, event):
        if "round" in event:
            supervisor.request_stop()

    started = time.monotonic()
    outcome = supervisor.run(stop_after_a_round)
    assert outcome.status == "killed"
    assert outcome.exit_code == 130
    assert "controller" in outcome.unfinished
    assert time.monotonic() - started < 10.0
    assert orphans.find(supervisor.run_id) == []


def test_a_second_request_kills_at_once(supervise):
    supervisor = supervise(controller="deaf", grace_s=60.0)

    def stop_twice(name, event):
        if "round" in event:
            supervisor.request_stop()
            supervisor.request_stop()  # the same Ctrl-C, delivered twice
            threading.Timer(0.8, supervisor.request_stop).start()

    started = time.monotonic()
    assert supervisor.run(stop_twice).status == "killed"
    assert 0.8 < time.monotonic() - started < 6.0


def test_a_role_that_does_not_end_after_the_run(supervise):
    supervisor = supervise(("double", "lingers"), grace_s=0.5)
    with pytest.raises(WaitTimeout, match=r"worker-1 did not end within 0\.5 s"):
        supervisor.run()
    assert supervisor.result == {"total": 12, "rounds": 3}
    assert orphans.find(supervisor.run_id) == []


def test_an_error_of_the_event_callback_ends_the_run(supervise):
    def fail(name, event):
        if "round" in event:
            raise RuntimeError("the view broke")

    supervisor = supervise(rounds=10_000, controller="slow")
    with pytest.raises(RuntimeError, match="the view broke"):
        supervisor.run(fail)
    assert orphans.find(supervisor.run_id) == []


def test_a_channel_is_handed_to_running_roles(supervise_specs):
    first = RoleSpec(role="controller", name="controller", factory="toy_roles:Introducer")
    other = RoleSpec(role="worker", name="other", factory="toy_roles:Greeter")
    supervisor = supervise_specs(first, other, links=[])
    ready = []

    def connect_when_ready(name, event):
        ready.extend([name] if "ready" in event else [])
        if ("ready" in event and len(ready) == 2) or ("heard" in event and len(ready) == 2):
            supervisor.connect("controller", "other")

    assert supervisor.run(connect_when_ready).result == [("other", "hello controller")] * 2


def test_specs_that_cannot_work(supervise_specs):
    one = RoleSpec(role="controller", name="controller", factory="toy_roles:Controller")
    with pytest.raises(HeadraceError, match="two roles of the run have the same name"):
        supervise_specs(one, one)
    with pytest.raises(HeadraceError, match="there is no role named 'controller' among probe"):
        supervise_specs(RoleSpec(role="probe", name="probe", factory="toy_roles:Environment"))
    with pytest.raises(HeadraceError, match="a link names the role 'generator-0'; there are controller"):
        supervise_specs(one, links=[("controller", "generator-0")])
    unpicklable = RoleSpec(role="probe", name="probe", factory="toy_roles:Environment", args={"f": lambda: 0})
    with pytest.raises(HeadraceError, match="the arguments of probe cannot be sent to a process"):
        supervise_specs(unpicklable, primary="probe").run()
    missing = RoleSpec(role="probe", name="probe", factory="toy_roles:Nothing")
    with pytest.raises(RoleDied, match="cannot load the role 'toy_roles:Nothing'"):
        supervise_specs(missing, primary="probe").run()
    no_python = RoleSpec(role="probe", name="probe", factory="toy_roles:Environment", python="/no/such/python")
    with pytest.raises(HeadraceError, match="cannot start probe"):
        supervise_specs(no_python, primary="probe").run()


def test_the_supervisor_does_not_import_torch():
    code = "import sys, headrace.runtime.supervisor; sys.exit('torch' in sys.modules)"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_nothing_leaks_over_twenty_runs(supervise_specs):
    spec = RoleSpec(role="trainer", name="trainer", factory="toy_roles:Loner")

    def run():
        supervise_specs(spec, primary="trainer").run()

    run()
    shared_files = set(os.listdir("/dev/shm"))
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        run()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert set(os.listdir("/dev/shm")) <= shared_files
