"""Ctrl-C and SIGTERM, turned into calls for the time of a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_signals(callback: Callable[[int], None]) -> Iterator[None]:
    """Call ``callback(signal number)`` for SIGINT, SIGTERM and SIGHUP; restore the handlers afterwards.

    A signal that is ignored already (SIGHUP under nohup) stays so. Outside the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        callback(signum)

    before = {}
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN or signum == signal.SIGINT:
            before[signum] = signal.signal(signum, handle)
    try:
        yield
    finally:
        for signum, handler in before.items():
            # None: the handler was not installed from Python and cannot be put back.
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
