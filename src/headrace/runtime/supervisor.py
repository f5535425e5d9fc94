"""Starts, watches and ends the processes of a run. Torch-free; parent of all of them; holds no state of the run.

The run is over when its primary role (the controller) is done. A role that ends before that, or raises, ends the run
with ``RoleDied``. Whatever happens, no process of the run is alive when ``run`` returns.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import ChannelClosed, HeadraceError, RoleDied, WaitTimeout
from headrace.runtime import orphans
from headrace.runtime.local import RoleProcess, Watchman
from headrace.runtime.outcome import RunOutcome, died, first_cause
from headrace.runtime.role_spec import RoleSpec
from headrace.runtime.shared_memory import SharedMemory
from headrace.runtime.signals import on_signals
from headrace.transports.channel import pair
from headrace.transports.control import CreateMemory, Done, Failed, OpenMemory, PeerChannel, Report

EventCallback = Callable[[str, Mapping[str, Any]], None]

TICK_S = 0.1  # how soon a request to stop, or a silent end, is noticed
SETTLE_S = 0.5  # how long to look for the cause when a role has failed
FAILURE_GRACE_S = 2.0  # for the other roles to close their files
SECOND_REQUEST_S = 0.5  # a second Ctrl-C within this time is the first one, delivered twice


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
        self._roles: dict[str, RoleProcess] = {}
        self._failed: list[RoleProcess] = []
        self._memory = SharedMemory()
        self._selector = selectors.DefaultSelector()
        self._watchman: Watchman | None = None
        self._on_event: EventCallback = lambda name, event: None
        self._done_at: float | None = None  # when the primary role said so
        self._returned_at: float | None = None  # when the first other role returned
        self._stop_signal: int | None = None
        self._stop_at: float | None = None
        self._stop_passed_on = False
        self._kill_now = False

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
            try:
                self._start_all()
                unfinished = self._watch()
            except RoleDied:
                self._let_others_end("failed", FAILURE_GRACE_S)
                raise
            finally:
                self._clean_up()
        return RunOutcome(
            status="killed" if unfinished else "done" if self._stop_signal is None else "stopped",
            result=self.result,
            exit_code=0 if self._stop_signal is None else 128 + self._stop_signal,
            wall_s=time.monotonic() - started,
            num_orphans=self.num_orphans,
            unfinished=unfinished,
        )

    def request_stop(self, signum: int = signal.SIGINT) -> None:
        """Ask the run to write a checkpoint and end; asked again, kill it. Safe in signal handlers and threads."""
        now = time.monotonic()
        if self._stop_at is None:
            self._stop_signal, self._stop_at = signum, now
        elif now - self._stop_at > SECOND_REQUEST_S:
            self._kill_now = True

    def connect(self, first: str, second: str) -> None:
        """Hand a new channel to two roles that are running; it replaces one they may have had."""
        for_first, for_second = pair(first, second)
        try:
            for name, peer, end in ((first, second, for_first), (second, first, for_second)):
                role = self._roles[name]
                if role.alive:
                    with contextlib.suppress(HeadraceError):  # it is ending: that is noticed soon, and told better
                        role.control.send_fd(PeerChannel(peer=peer), end.fileno())
        finally:
            for_first.close()
            for_second.close()

    def start_role(self, spec: RoleSpec, attempt: int = 0) -> RoleProcess:
        """Start one process, without channels to its peers (see ``connect``). ``attempt`` counts its restarts."""
        role = RoleProcess(
            spec, run_id=self.run_id, run_folder=self.run_folder, import_path=self._import_path, attempt=attempt
        )
        self._roles[spec.name] = role
        self._selector.register(role.control, selectors.EVENT_READ, role)
        if self._watchman is not None:
            self._watchman.watch(role.pid)
        self._emit("started", role=spec.name, pid=role.pid, attempt=attempt)
        return role

    # The run

    def _start_all(self) -> None:
        self.run_folder.mkdir(parents=True, exist_ok=True)
        self._watchman = Watchman(self.run_id)
        for spec in self._specs.values():
            self.start_role(spec)
        for first, second in self._links:
            self.connect(first, second)

    def _watch(self) -> tuple[str, ...]:
        """Until every role has ended; the names of those that were asked to stop and did not in time."""
        while True:
            self._take_messages(TICK_S)
            for role in self._roles.values():
                self._look_at(role)
            if self._failed:
                raise died(self._cause())
            alive = tuple(role.name for role in self._roles.values() if role.alive)
            if not alive:
                return ()
            if self._stop_at is not None and self._must_be_killed():
                return alive
            self._check_time_limits(alive)

    def _look_at(self, role: RoleProcess) -> None:
        """Notice that a role has ended, and judge whether it should have."""
        if not role.alive or role.poll() is None:
            return
        self._drain(role)
        self._forget(role)
        self._emit("ended", role=role.name, exit_code=role.exit_code)
        if role.failure is not None:
            return  # it was judged when that arrived
        if role.exit_code != 0 or not role.finished:
            self._failed.append(role)
        elif role.name != self._primary and self._returned_at is None:
            self._returned_at = time.monotonic()

    def _cause(self) -> RoleProcess:
        """The role to name. Roles that lost a channel may speak up before the one that closed it is seen to be dead."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and not self._kill_now:
            self._take_messages(0.05)
            for role in self._roles.values():
                self._look_at(role)
        return first_cause(self._failed)

    def _check_time_limits(self, alive: tuple[str, ...]) -> None:
        now = time.monotonic()
        if self._done_at is not None and now - self._done_at > self.grace_s:
            raise WaitTimeout(
                f"the run is done, but {', '.join(alive)} did not end within {self.grace_s:g} s and was killed"
            )
        if self._done_at is None and self._returned_at is not None and now - self._returned_at > self.wrap_up_s:
            early = [role for role in self._roles.values() if not role.alive]
            raise died(early[0])

    def _must_be_killed(self) -> bool:
        assert self._stop_at is not None
        if not self._stop_passed_on:
            self._stop_passed_on = True
            self._emit("stopping", grace_s=self.grace_s)
            if self._roles[self._primary].alive:
                self._roles[self._primary].ask_to_stop("interrupted")
        return self._kill_now or time.monotonic() - self._stop_at > self.grace_s

    # Messages

    def _take_messages(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            self._drain(key.data)

    def _drain(self, role: RoleProcess) -> None:
        """Take every message that has arrived from a role."""
        try:
            while True:
                self._take(role, role.control.recv(timeout_s=0.0))
        except WaitTimeout:
            return
        except ChannelClosed:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(role.control)

    def _take(self, role: RoleProcess, message: Any) -> None:
        match message:
            case Report(event=event):
                self._on_event(role.name, event)
            case Done(result=result):
                self._take_done(role, result)
            case Failed():
                self._take_failure(role, message)
            case CreateMemory():
                with contextlib.suppress(ChannelClosed):
                    self._memory.create(role.control, message)
            case OpenMemory():
                with contextlib.suppress(ChannelClosed):
                    self._memory.open(role.control, message)

    def _take_done(self, role: RoleProcess, result: Any) -> None:
        role.finished = True
        if role.name != self._primary:
            return
        self.result = self.result if result is None else result
        if self._done_at is None:
            self._done_at = time.monotonic()
            self._ask_others_to_stop("done")

    def _take_failure(self, role: RoleProcess, failure: Failed) -> None:
        role.failure = failure
        # At the end of a run whoever closes first is a matter of luck; losing a channel then means nothing.
        if not (failure.channel_closed and self._done_at is not None and role.name != self._primary):
            self._failed.append(role)

    def _emit(self, what: str, **details: Any) -> None:
        self._on_event("supervisor", {"event": what, **details})

    # The end

    def _ask_others_to_stop(self, reason: Any) -> None:
        for role in self._roles.values():
            if role.alive and role.name != self._primary:
                role.ask_to_stop(reason)

    def _let_others_end(self, reason: Any, grace_s: float) -> None:
        for role in self._roles.values():
            if role.alive:
                role.ask_to_stop(reason)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and not self._kill_now:
            if all(role.poll() is not None for role in self._roles.values()):
                return
            time.sleep(0.02)

    def _clean_up(self) -> None:
        for role in self._roles.values():
            role.kill_group()
        for role in self._roles.values():
            role.kill()
            self._forget(role)
        helpers = [] if self._watchman is None else [self._watchman.pid]
        left = orphans.wait_gone(self.run_id, helpers)
        self.num_orphans = len(left)
        commands = [orphans.command_line(pid) for pid in left]
        if left:
            orphans.end(self.run_id, helpers)
        if self._watchman is not None:
            self._watchman.dismiss()
        for role in self._roles.values():
            role.close()
        self._memory.close()
        self._selector.close()
        if commands:
            self._emit("orphans", commands=commands)

    def _forget(self, role: RoleProcess) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(role.control)
        if self._watchman is not None and not role.alive:
            self._watchman.forget(role.pid)


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
