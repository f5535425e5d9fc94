"""The process a role lives in: ``python -m headrace.runtime.role_host --control FD --parent PID --name NAME``.

The supervisor starts it with the thread limits already in its environment, leads it into a process group of its own and
writes its output to a log. It ends roles by message, never by signal; when its end of the control channel closes, the
whole group is killed at once, whatever the role is doing.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any

from headrace.errors import ChannelClosed, HeadraceError
from headrace.runtime.role_spec import Start, load_factory
from headrace.transports.channel import Channel, from_fd
from headrace.transports.control import Done, Failed
from headrace.transports.role_context import RoleContext

START_TIMEOUT_S = 60.0
_PR_SET_PDEATHSIG = 1


def main(argv: list[str] | None = None) -> int:
    """Run one role to its end; the process's exit code."""
    parser = argparse.ArgumentParser(prog="headrace.runtime.role_host")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--name", required=True)
    options = parser.parse_args(argv)
    _die_with(options.parent)
    _ignore_signals()
    channel = from_fd(options.control, peer="the supervisor")
    try:
        _run(channel)
        return 0
    except BaseException as error:
        failure = describe(error)
        print(failure.traceback, file=sys.stderr, flush=True)
        with contextlib.suppress(HeadraceError):
            channel.send(failure)
        return failure.exit_code


def _run(channel: Channel) -> None:
    start: Start = channel.recv(timeout_s=START_TIMEOUT_S)
    spec = start.spec
    context = RoleContext(
        channel,
        name=spec.name,
        role=spec.role,
        run_id=start.run_id,
        run_folder=start.run_folder,
        threads=spec.threads,
    )
    threading.Thread(target=_serve, args=(context,), name="control", daemon=True).start()
    factory = load_factory(spec.factory)
    channel.send(Done(result=factory(context, **spec.args).run()))


def describe(error: BaseException) -> Failed:
    """An exception as the supervisor is told of it."""
    code = error.exit_code if isinstance(error, HeadraceError) else 1
    return Failed(
        error_type=type(error).__name__,
        message=str(error),
        traceback="".join(traceback.format_exception(error)),
        exit_code=code,
        headrace_error=isinstance(error, HeadraceError),
        channel_closed=isinstance(error, ChannelClosed),
    )


def _serve(context: RoleContext) -> None:
    try:
        context.serve()
    except ChannelClosed:
        pass
    except BaseException:
        traceback.print_exc()
    _kill_group()


def _kill_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)  # somebody started this without a group of its own; leave theirs alone


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends: the control thread may be kept from running."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it ended before the kernel knew


def _ignore_signals() -> None:
    # Handlers, not SIG_IGN: that would be inherited by whatever programs the role starts.
    def ignore(signum: int, frame: FrameType | None) -> Any: ...

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, ignore)


if __name__ == "__main__":
    sys.exit(main())
