import io
from dataclasses import replace

import pytest
from rich.console import Console

from headrace.health.alert import Alert
from headrace.report.live import LiveView
from headrace.report.live_state import LiveState, event_from_metrics
from tests.unit.report.test_forecast_words import MADE

ALERT = Alert(
    level="warning", name="lag", evidence="the oldest trained tokens are 13.0 steps old", cause="c.", fix="f."
)


class Ticks:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run(view: LiveView, clock: Ticks, num_steps: int = 40) -> None:
    view.update({"phase": "loading model", "num_steps": num_steps, "max_lag": 4})
    view.update({"phase": "evaluating before"})
    view.update({"held_out_pass_rate": 0.338})
    view.update({"phase": "training"})
    for step in range(1, num_steps + 1):
        clock.now += 0.5
        metrics = {
            "reward/pass_rate": step / num_steps, "reward/mean": 0.5, "loss/entropy": 0.3, "rollout/lag_mean": 1.25,
            "rollout/lag_max": 3, "generator/tokens_per_s": 12345, "trainer/tokens_per_s": 987.0,
            "trainer/idle_frac": 0.03, "generator/idle_frac": 0.12, "own/figure": 1,
        }  # fmt: skip
        view.update(event_from_metrics(step, metrics, alerts=[ALERT] if step > 20 else []))
    view.update({"held_out_pass_rate": 0.913})


def view_of(width: int, clock: Ticks, **options: object) -> tuple[LiveView, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, width=width, **options)  # type: ignore[arg-type]
    return LiveView(title="headrace demo", console=console, clock=clock), out


def panel_text(view: LiveView, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(view.render())
    return out.getvalue().splitlines()


def test_the_panel_shows_everything_in_80_columns() -> None:
    clock = Ticks()
    view, _ = view_of(80, clock, force_terminal=True)
    run(view, clock)
    lines = panel_text(view, 80)
    text = "\n".join(lines)
    assert max(map(len, lines)) == 80
    for part in (
        "headrace demo · training", "step 40/40", "0:20 · 0:00 left", "pass rate  0.91", "0.34 → 0.91 (step 40)",
        "entropy 0.300", "1.2 mean · 3 max · bound 4", "12.3k  tok/s · idle 12 %", "987 tok/s · idle 3 %",
        "! warning: lag: the oldest trained tokens are 13.0 steps old",
    ):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("width", [40, 60, 200])
def test_other_widths_do_not_overflow(width: int) -> None:
    clock = Ticks()
    view, _ = view_of(width, clock, force_terminal=True)
    run(view, clock)
    assert max(map(len, panel_text(view, width))) <= min(width, 80)


def test_a_terminal_is_drawn_on_and_left_in_order() -> None:
    clock = Ticks()
    view, out = view_of(80, clock, force_terminal=True)
    with view:
        run(view, clock)
    view.close()
    text = out.getvalue()
    assert "headrace demo" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor comes back


def test_a_pipe_gets_a_plain_line_now_and_then() -> None:
    clock = Ticks()
    view, out = view_of(80, clock)
    with view:
        run(view, clock)
    lines = out.getvalue().splitlines()
    assert [line.split("] ")[1] for line in lines[:4]] == [
        "loading model",
        "evaluating before",
        "held-out pass rate 0.338 (step 0)",
        "training",
    ]
    steps = [line for line in lines if "] step " in line]
    assert len(steps) == 20
    assert steps[-1].startswith("[  0:20] step 40/40  pass 0.91  reward 0.50  entropy 0.300  lag 1.2 max 3")
    assert sum("warning: lag" in line for line in lines) == 1
    assert lines[-1].endswith("held-out pass rate 0.913 (step 40)")
    assert "\x1b" not in out.getvalue()


def test_the_last_step_is_printed_even_between_two_lines() -> None:
    clock = Ticks()
    out = io.StringIO()
    view = LiveView(console=Console(file=out), plain_every=7, clock=clock)
    with view:
        run(view, clock, num_steps=10)
    steps = [line.split("] ")[1].split()[1] for line in out.getvalue().splitlines() if "] step " in line]
    assert steps == ["7/10", "10/10"]


def test_time_left_follows_the_pace_and_counts_down_between_steps() -> None:
    clock = Ticks()
    state = LiveState(clock)
    state.fold({"phase": "training", "num_steps": 10})
    assert state.time_left_s is None
    for step in (1, 2):
        clock.now += 3
        state.fold({"step": step})
    assert state.time_left_s == pytest.approx(24)
    clock.now += 2
    assert state.time_left_s == pytest.approx(22)
    state.fold({"time_left_s": 5})
    assert state.time_left_s == pytest.approx(5)
    state.fold({"phase": "evaluating after"})
    assert state.time_left_s is None


def test_a_resumed_run_is_not_taken_for_a_fast_one() -> None:
    clock = Ticks()
    state = LiveState(clock)
    state.fold({"phase": "training", "num_steps": 100})
    clock.now += 30
    state.fold({"step": 51})
    clock.now += 2
    state.fold({"step": 52})
    assert state.time_left_s == pytest.approx(96)


def test_the_pass_rate_is_a_moving_mean_and_none_is_ignored() -> None:
    state = LiveState()
    for step, rate in enumerate([0.0, 0.5, 1.0], start=1):
        state.fold({"step": step, "pass_rate": rate, "entropy": None})
    assert state.pass_rates == [0.0, 0.25, 0.5]
    assert state.number("entropy") is None


SHORT = replace(MADE, identified=False, value=None, interval=None, reasons=("3 of the 6 evaluations a fit needs",))


def test_the_forecast_stands_in_the_panel_from_the_second_evaluation_on() -> None:
    view, _ = view_of(80, Ticks(), force_terminal=True)
    view.update({"held_out_pass_rate": 0.25, "forecast": SHORT})
    assert "forecast" not in "".join(panel_text(view, 80))
    view.update({"held_out_pass_rate": 0.3, "forecast": SHORT})
    assert "forecast   not yet: 3 of the 6 evaluations a fit needs" in "\n".join(panel_text(view, 80))
    view.update({"held_out_pass_rate": 0.5, "forecast": MADE})
    lines = panel_text(view, 80)
    assert max(map(len, lines)) == 80
    (line,) = [line for line in lines if "forecast" in line]
    assert "forecast   0.597 (0.590..0.605) at step 60, ceiling 0.612 (0.596..0.617)" in line
    assert max(map(len, panel_text(view, 50))) <= 80


def test_plain_lines_say_the_forecast_beside_the_evaluation() -> None:
    view, out = view_of(80, Ticks())
    view.update({"held_out_pass_rate": 0.25, "held_out_step": 0, "forecast": SHORT})
    view.update({"held_out_pass_rate": 0.5, "held_out_step": 30, "forecast": MADE})
    view.update({"step": 31})
    assert [line.split("] ")[1] for line in out.getvalue().splitlines()[:3]] == [
        "held-out pass rate 0.250 (step 0)",
        "held-out pass rate 0.500 (step 30)",
        "forecast 0.597 (0.590..0.605) at step 60, ceiling 0.612 (0.596..0.617)",
    ]
