"""Starts, watches and ends the processes of a run. Torch-free; parent of all of them; holds no state of the run.

The run is over when its primary role (the controller) is done. A role that ends before that, or raises, ends the run
with ``RoleDied``. Whatever happens, no process of the run is alive when ``run`` returns.
"""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, RoleDied, WaitTimeout
from headrace.runtime.crew import Crew
from headrace.runtime.local import RoleProcess
from headrace.runtime.outcome import RunOutcome, died, first_cause
from headrace.runtime.role_spec import RoleSpec
from headrace.runtime.signals import on_signals
from headrace.runtime.stop_request import StopRequest
from headrace.transports.control import Done, Failed, Report

EventCallback = Callable[[str, Mapping[str, Any]], None]

TICK_S = 0.1  # how soon a request to stop, or a silent end, is noticed
SETTLE_S = 0.5  # how long to look for the cause when a role has failed
FAILURE_GRACE_S = 2.0  # for the other roles to close their files


class Supervisor:
    """One run of several roles. Use it once: ``outcome = Supervisor(folder, specs).run(on_event=show)``.

    ``links`` are pairs of role names to be connected by a channel; the default connects the primary role with every
    other. ``grace_s`` is how long roles may take to end after the run is done, or after a request to stop (a checkpoint
    is written in it). ``wrap_up_s`` is how long the primary role may go on after another one returned. ``import_path``
    lists folders that factories are imported from, besides the usual ones.
    """

    def __init__(
        self,
        run_folder: str | Path,
        specs: Sequence[RoleSpec],
        *,
        links: Sequence[tuple[str, str]] | None = None,
        primary: str = "controller",
        run_id: str | None = None,
        grace_s: float = 20.0,
        wrap_up_s: float = 120.0,
        import_path: Sequence[str] = (),
    ) -> None:
        self.run_folder = Path(run_folder).resolve()
        self.run_id = run_id or uuid.uuid4().hex
        self.grace_s = grace_s
        self.wrap_up_s = wrap_up_s
        self.num_orphans = 0
        self.result: Any = None
        self._specs = {spec.name: spec for spec in specs}
        self._links = _checked_links(self._specs, links, primary, len(specs))
        self._primary = primary
        self._import_path = tuple(import_path)
        self._failed: list[RoleProcess] = []
        self._stop = StopRequest()
        self._stop_passed_on = False
        self._on_event: EventCallback = lambda name, event: None
        self._done_at: float | None = None  # when the primary role said so
        self._returned_at: float | None = None  # when the first other role returned

    # What the outside calls

    def run(self, on_event: EventCallback | None = None) -> RunOutcome:
        """Start every role, watch them to the end, leave nothing behind.

        ``on_event(role name, event)`` gets what roles report, and the supervisor's own events under "supervisor".
        Raises ``RoleDied`` when a role ended or raised before the run was done (its ``exit_code`` is the role's), and
        ``WaitTimeout`` when a role does not end after it. In the main thread, Ctrl-C, SIGTERM and SIGHUP ask the
        run to stop; a second one kills it.
        """
        started = time.monotonic()
        self._on_event = on_event or self._on_event
        unfinished: tuple[str, ...] = ()
        with on_signals(self.request_stop):
            self._crew = Crew(self.run_id, self.run_folder, self._import_path)
            try:
                self._start_all()
                unfinished = self._watch()
            except RoleDied:
                self._crew.ask_to_stop("failed")
                self._crew.wait_ended(0.0 if self._stop.kill_now else FAILURE_GRACE_S)
                raise
            finally:
                left = self._crew.clean_up()
                self.num_orphans = len(left)
                if left:
                    self._emit("orphans", commands=left)
        return RunOutcome(
            status="killed" if unfinished else "stopped" if self._stop else "done",
            result=self.result,
            exit_code=self._stop.exit_code,
            wall_s=time.monotonic() - started,
            num_orphans=self.num_orphans,
            unfinished=unfinished,
        )

    def request_stop(self, signum: int = signal.SIGINT) -> None:
        """Ask the run to write a checkpoint and end; asked again, kill it. Safe in signal handlers and threads."""
        self._stop.make(signum)

    def connect(self, first: str, second: str) -> None:
        """Hand a new channel to two roles that are running. Call it from the event callback only."""
        self._crew.connect(first, second)

    # The run

    def _start_all(self) -> None:
        for spec in self._specs.values():
            role = self._crew.start(spec)
            self._emit("started", role=spec.name, pid=role.pid)
        for first, second in self._links:
            self._crew.connect(first, second)

    def _watch(self) -> tuple[str, ...]:
        """Until every role has ended; the names of those that were asked to stop and did not in time."""
        while True:
            self._look(TICK_S)
            if self._unexcused():
                self._raise_cause()
            alive = self._crew.alive
            if not alive:
                return ()
            if self._stop and self._must_be_killed():
                return alive
            self._check_time_limits(alive)

    def _look(self, timeout_s: float) -> None:
        """Take what has arrived within the time, then notice who has ended."""
        for role, message in self._crew.messages(timeout_s):
            self._take(role, message)
        for role in self._crew.newly_ended():
            for _, message in self._crew.messages_of(role):
                self._take(role, message)
            self._judge(role)

    def _take(self, role: RoleProcess, message: Any) -> None:
        match message:
            case Report(event=event):
                self._on_event(role.name, event)
            case Done(result=result):
                role.finished = True
                if role.name == self._primary:
                    self._take_done(result)
            case Failed():
                role.failure = message
                self._failed.append(role)

    def _take_done(self, result: Any) -> None:
        self.result = self.result if result is None else result
        if self._done_at is None:
            self._done_at = time.monotonic()
            self._crew.ask_to_stop("done", without=self._primary)

    def _judge(self, role: RoleProcess) -> None:
        """Whether a role that has ended should have."""
        self._emit("ended", role=role.name, exit_code=role.exit_code)
        if role.failure is not None:
            return  # noted when it arrived
        if role.exit_code != 0 or not role.finished:
            self._failed.append(role)
        elif role.name != self._primary and self._returned_at is None:
            self._returned_at = time.monotonic()

    def _unexcused(self) -> list[RoleProcess]:
        # At the end of a run whoever closes first is a matter of luck: losing a channel then means nothing.
        return [role for role in self._failed if self._done_at is None or role.name == self._primary or not role.lost]

    def _raise_cause(self) -> None:
        """Raise for the role that began it: one that only lost a channel may speak up before the dead one is found."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and not self._stop.kill_now:
            self._look(0.05)
        failed = self._unexcused()
        if failed:
            raise died(first_cause(failed))

    def _must_be_killed(self) -> bool:
        if not self._stop_passed_on:
            self._stop_passed_on = True
            self._emit("stopping", grace_s=self.grace_s)
            self._crew.roles[self._primary].ask_to_stop("interrupted")
        return self._stop.kill_now or self._stop.waited_s > self.grace_s

    def _check_time_limits(self, alive: tuple[str, ...]) -> None:
        now = time.monotonic()
        if self._done_at is not None and now - self._done_at > self.grace_s:
            raise WaitTimeout(f"the run is done, but {', '.join(alive)} did not end within {self.grace_s:g} s of that")
        if self._done_at is None and self._returned_at is not None and now - self._returned_at > self.wrap_up_s:
            raise died(next(role for role in self._crew.roles.values() if not role.alive))

    def _emit(self, what: str, **details: Any) -> None:
        self._on_event("supervisor", {"event": what, **details})


def _checked_links(
    specs: Mapping[str, RoleSpec], links: Sequence[tuple[str, str]] | None, primary: str, num_specs: int
) -> list[tuple[str, str]]:
    if len(specs) != num_specs:
        raise HeadraceError("two roles of the run have the same name")
    if primary not in specs:
        raise HeadraceError(f"there is no role named {primary!r} among {', '.join(specs)}")
    wanted = [(primary, name) for name in specs if name != primary] if links is None else list(links)
    for name in {name for link in wanted for name in link}:
        if name not in specs:
            raise HeadraceError(f"a link names the role {name!r}; there are {', '.join(specs)}")
    return wanted
