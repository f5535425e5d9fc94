"""Live progress in the terminal; on anything that is not a terminal, one plain line now and then.

Fed by events; their fields are listed in live_state.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from headrace.report.forecast_words import forecast_line
from headrace.report.glyphs import clock_time, figure, glyphs_for
from headrace.report.live_panel import alert_key, alert_text, live_panel, plain_line
from headrace.report.live_state import LiveState

REFRESH_PER_S = 4
PLAIN_LINES = 20  # of a run, phases, evaluations and alerts not counted


class LiveView:
    """``with LiveView() as view: view.update({"phase": "training", "num_steps": 100}); view.update({"step": 1, ...})``.

    ``plain_every`` is the number of steps between two plain lines (default: about twenty lines a run).
    """

    def __init__(
        self,
        *,
        title: str = "headrace",
        console: Console | None = None,
        plain_every: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = LiveState(clock)
        self.console = console or Console()
        self._title = title
        self._plain_every = plain_every
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._last_plain_step = 0
        self._active_alerts: set[str] = set()

    def __enter__(self) -> LiveView:
        if self.console.is_terminal:
            self._live = Live(
                console=self.console, get_renderable=self.render, refresh_per_second=REFRESH_PER_S, redirect_stderr=True
            )
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Draw the last state and give the terminal back. Closing twice is harmless."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        phase, num_evals = self.state.phase, len(self.state.held_out)
        with self._lock:
            self.state.fold(event)
        if not self.console.is_terminal:
            self._print_plain(phase_changed=self.state.phase != phase, evaluated=len(self.state.held_out) > num_evals)

    def render(self) -> RenderableType:
        """The panel as it is now; also called from the refresh thread."""
        with self._lock:
            glyphs = glyphs_for(self.console.encoding)
            return live_panel(self.state, title=self._title, width=self.console.width, glyphs=glyphs)

    def _print_plain(self, *, phase_changed: bool, evaluated: bool) -> None:
        if phase_changed:
            self._say(self.state.phase)
        if evaluated:
            version, rate = self.state.held_out[-1]
            self._say(f"held-out pass rate {figure(rate, 3)} (step {version})")
            if self.state.forecast is not None and len(self.state.held_out) > 1:
                self._say(f"forecast {forecast_line(self.state.forecast)}")
        active = {alert_key(alert): alert_text(alert) for alert in self.state.alerts}
        for key in active.keys() - self._active_alerts:
            self._say(active[key])
        self._active_alerts = set(active)
        if self._line_is_due():
            self._last_plain_step = self.state.step
            self._say(plain_line(self.state))

    def _line_is_due(self) -> bool:
        step, num_steps = self.state.step, self.state.num_steps
        every = self._plain_every or max(1, num_steps // PLAIN_LINES)
        return step >= self._last_plain_step + every or self._last_plain_step < step == num_steps

    def _say(self, text: str) -> None:
        line = f"[{clock_time(self.state.elapsed_s):>6}] {text}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
        self.console.file.flush()
