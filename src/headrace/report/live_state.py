"""What the live view shows: events folded into a state. No drawing here.

Fields of an event, all optional; fields not named here, and values of None, are ignored:

=========================  ========================================================================================
phase                      one of ``PHASES``
step, num_steps            steps completed, steps of the run
pass_rate, reward          of the training rollouts of the step; the view shows a moving mean of the pass rate
entropy                    nats
lag_mean, lag_max          of the step, steps
max_lag                    the bound
generated_tokens_per_s     all generators
trained_tokens_per_s
trainer_idle_frac          since the first admission, [0, 1]
generator_idle_frac
held_out_pass_rate         of an evaluation that finished
held_out_step              version evaluated (default: the current step)
forecast                   of the run's end, made from the evaluations so far (``scaling.made.MadeForecast``)
time_left_s                seconds to the end of training (default: from the pace of the last steps)
alerts                     the alerts that are active now (``health.Alert`` or text)
=========================  ========================================================================================
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headrace.health.alert import Alert
from headrace.scaling.made import MadeForecast

PHASES = ("starting", "loading model", "evaluating before", "training", "evaluating after", "done")
PACE_STEPS = 20
MOVING_STEPS = 8

FROM_METRICS: Mapping[str, str] = {
    "pass_rate": "reward/pass_rate",
    "reward": "reward/mean",
    "entropy": "loss/entropy",
    "lag_mean": "rollout/lag_mean",
    "lag_max": "rollout/lag_max",
    "generated_tokens_per_s": "generator/tokens_per_s",
    "trained_tokens_per_s": "trainer/tokens_per_s",
    "trainer_idle_frac": "trainer/idle_frac",
    "generator_idle_frac": "generator/idle_frac",
}


def event_from_metrics(step: int, metrics: Mapping[str, float], **fields: Any) -> dict[str, Any]:
    """The event for one finished step (the trainer's version after it), from metrics named as in metrics/names.py."""
    figures = {field: metrics[name] for field, name in FROM_METRICS.items() if name in metrics}
    return {"step": step, **figures, **fields}


class LiveState:
    """The newest value of every field, and the few series the view draws."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.phase = PHASES[0]
        self.fields: dict[str, Any] = {"step": 0, "num_steps": 0}
        self.held_out: list[tuple[int, float]] = []  # (version, pass rate), as they came in
        self.pass_rates: list[float] = []  # moving mean after every step
        self.alerts: list[Alert | str] = []
        self.forecast: MadeForecast | None = None
        self._recent: deque[float] = deque(maxlen=MOVING_STEPS)
        self._pace: deque[tuple[float, int]] = deque(maxlen=PACE_STEPS + 1)
        self._clock = clock
        self._start = clock()
        self._time_left: tuple[float, float] | None = None  # (clock, seconds left then)

    def fold(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        known = {key: value for key, value in event.items() if value is not None}
        is_new_step = known.get("step", self.step) > self.step
        if (phase := known.pop("phase", self.phase)) != self.phase:
            self.phase = str(phase)
            self._pace.clear()
        self.alerts = list(known.pop("alerts", self.alerts))
        self.forecast = known.pop("forecast", self.forecast)
        if (rate := known.pop("held_out_pass_rate", None)) is not None:
            self.held_out.append((int(known.pop("held_out_step", known.get("step", self.step))), float(rate)))
        self.fields.update(known)
        if is_new_step and self._pace and self._pace[-1][1] == 0 and self.step > 1:
            self._pace.clear()  # a resumed run: its first steps were not made in this time
        if is_new_step or not self._pace:
            self._pace.append((self._clock(), self.step))
        if is_new_step and "pass_rate" in known:
            self._recent.append(float(known["pass_rate"]))
            self.pass_rates.append(sum(self._recent) / len(self._recent))
        self._note_time_left(known.get("time_left_s"))

    @property
    def step(self) -> int:
        return int(self.fields["step"])

    @property
    def num_steps(self) -> int:
        return int(self.fields["num_steps"])

    @property
    def pass_rate(self) -> float | None:
        """Moving mean of the training pass rate."""
        return self.pass_rates[-1] if self.pass_rates else None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start

    @property
    def time_left_s(self) -> float | None:
        """Seconds to the last step, counting down between steps; None before there is a pace."""
        if self._time_left is None or self.phase != "training":
            return None
        then, left = self._time_left
        return max(0.0, left - (self._clock() - then))

    def number(self, name: str) -> float | None:
        """The newest value of a field, None when it never came."""
        value = self.fields.get(name)
        return None if value is None else float(value)

    def _note_time_left(self, given: float | None) -> None:
        if given is not None:
            self._time_left = (self._clock(), float(given))
            return
        (then, first), (now, last) = self._pace[0], self._pace[-1]
        if "time_left_s" not in self.fields and last > first:
            self._time_left = (now, (self.num_steps - last) * (now - then) / (last - first))
