"""Health over a run: keeps the window and the figures at the start, and says each thing once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headrace.health.alert import Alert
from headrace.health.rules import check_health, window_mean

START_STEPS = 3  # the start's figures are means over this many steps


class HealthMonitor:
    """Feed it every step's metrics. ``active`` are the alerts of the current window, most serious first."""

    def __init__(self, window: int = 10) -> None:
        self.active: list[Alert] = []
        self._window: deque[Mapping[str, float]] = deque(maxlen=window)
        self._first: list[Mapping[str, float]] = []

    @property
    def start(self) -> dict[str, float]:
        """Mean figures of the first steps."""
        names = {name for metrics in self._first for name in metrics}
        means = {name: window_mean(self._first, name) for name in names}
        return {name: value for name, value in means.items() if value is not None}

    def observe(self, metrics: Mapping[str, float]) -> list[Alert]:
        """Take in one step; return the alerts that were not active after the step before."""
        self._window.append(metrics)
        if len(self._first) < START_STEPS:
            self._first.append(metrics)
        before = {(alert.name, alert.level) for alert in self.active}
        self.active = check_health(tuple(self._window), self.start)
        return [alert for alert in self.active if (alert.name, alert.level) not in before]
