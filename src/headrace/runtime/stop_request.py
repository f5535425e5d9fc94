"""What is known of a wish, from outside, to end a run."""

from __future__ import annotations

import time

SECOND_REQUEST_S = 0.5  # a second Ctrl-C within this time is the first one, delivered twice


class StopRequest:
    """Set by signal handlers and threads, read by the supervisor. The first request stops, a later one kills."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self.at: float | None = None  # seconds, monotonic
        self.kill_now = False

    def __bool__(self) -> bool:
        return self.at is not None

    def make(self, signum: int) -> None:
        """Ask for the end, as that signal does; asked again, for the end at once."""
        now = time.monotonic()
        if self.at is None:
            self.signum, self.at = signum, now
        elif now - self.at > SECOND_REQUEST_S:
            self.kill_now = True

    @property
    def waited_s(self) -> float:
        """Seconds since the first request; 0 without one."""
        return 0.0 if self.at is None else time.monotonic() - self.at

    @property
    def exit_code(self) -> int:
        """0 without a request, else 128 + the signal, as shells have it."""
        return 0 if self.signum is None else 128 + self.signum
