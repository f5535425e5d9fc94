"""The processes of a run as a whole: starting, connecting, hearing and ending them. No judgement in here."""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import ChannelClosed, HeadraceError, WaitTimeout
from headrace.runtime import orphans
from headrace.runtime.local import RoleProcess, Watchman
from headrace.runtime.role_spec import RoleSpec
from headrace.runtime.shared_memory import SharedMemory
from headrace.transports.channel import pair
from headrace.transports.control import CreateMemory, OpenMemory, PeerChannel, StopReason


class Crew:
    """The roles of one run by name, the newest process of each. Used by one thread."""

    def __init__(self, run_id: str, run_folder: Path, import_path: Sequence[str] = ()) -> None:
        """Start the watchman, nothing else yet."""
        self.run_id = run_id
        self.roles: dict[str, RoleProcess] = {}
        self._run_folder = run_folder
        self._import_path = tuple(import_path)
        self._memory = SharedMemory()
        self._selector = selectors.DefaultSelector()
        run_folder.mkdir(parents=True, exist_ok=True)
        self._watchman = Watchman(run_id)

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the roles whose process has not been seen to end."""
        return tuple(name for name, role in self.roles.items() if role.alive)

    def start(self, spec: RoleSpec, attempt: int = 0) -> RoleProcess:
        """Start one process, without channels to its peers (see ``connect``). ``attempt`` counts its restarts."""
        role = RoleProcess(
            spec, run_id=self.run_id, run_folder=self._run_folder, import_path=self._import_path, attempt=attempt
        )
        self.roles[spec.name] = role
        self._selector.register(role.control, selectors.EVENT_READ, role)
        self._watchman.watch(role.pid)
        return role

    def connect(self, first: str, second: str) -> None:
        """Hand a new channel to two roles, starting or running; it replaces one they may have had."""
        for_first, for_second = pair(first, second)
        try:
            for name, peer, end in ((first, second, for_first), (second, first, for_second)):
                with contextlib.suppress(HeadraceError):  # it is ending: that is noticed soon, and told better
                    self.roles[name].control.send_fd(PeerChannel(peer=peer), end.fileno())
        finally:
            for_first.close()
            for_second.close()

    def messages(self, timeout_s: float) -> Iterator[tuple[RoleProcess, Any]]:
        """What has arrived from the roles, after waiting for something up to ``timeout_s``.

        Requests for shared memory are answered here and do not come out.
        """
        for key, _ in self._selector.select(timeout_s):
            yield from self.messages_of(key.data)

    def messages_of(self, role: RoleProcess) -> Iterator[tuple[RoleProcess, Any]]:
        """What has arrived from one role, which may have ended since."""
        try:
            while True:
                message = role.control.recv(timeout_s=0.0)
                if not self._serve(role, message):
                    yield role, message
        except WaitTimeout:
            return
        except ChannelClosed:
            self._unregister(role)

    def _serve(self, role: RoleProcess, message: Any) -> bool:
        with contextlib.suppress(ChannelClosed):  # it ended while it waited
            if isinstance(message, CreateMemory):
                self._memory.create(role.control, message)
            elif isinstance(message, OpenMemory):
                self._memory.open(role.control, message)
        return isinstance(message, CreateMemory | OpenMemory)

    def newly_ended(self) -> Iterator[RoleProcess]:
        """Roles whose process has ended since the last call; what they left in their group is killed."""
        for role in self.roles.values():
            if role.alive and role.poll() is not None:
                self._watchman.forget(role.pid)
                yield role

    def ask_to_stop(self, reason: StopReason, *, without: str = "") -> None:
        """Ask every living role to end, but one."""
        for role in self.roles.values():
            if role.alive and role.name != without:
                role.ask_to_stop(reason)

    def wait_ended(self, timeout_s: float) -> None:
        """Give the roles some time to end by themselves."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(role.poll() is None for role in self.roles.values()):
            time.sleep(0.02)

    def clean_up(self) -> list[str]:
        """Kill every group and whatever else carries the run's id, close everything.

        Returns the command lines of the orphans: processes that were still alive after the groups were killed.
        """
        for role in self.roles.values():
            role.kill_group()
        for role in self.roles.values():
            role.kill()
            self._unregister(role)
            self._watchman.forget(role.pid)
        left = orphans.wait_gone(self.run_id, [self._watchman.pid])
        commands = [orphans.command_line(pid) for pid in left]
        if left:
            orphans.end(self.run_id, [self._watchman.pid])
        self._watchman.dismiss()
        for role in self.roles.values():
            role.close()
        self._memory.close()
        self._selector.close()
        return commands

    def _unregister(self, role: RoleProcess) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(role.control)
