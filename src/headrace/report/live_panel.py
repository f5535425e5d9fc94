"""The live view as it is drawn: one panel, 80 columns safe, and one line of plain text."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.health.alert import Alert
from headrace.report.forecast_words import forecast_line
from headrace.report.glyphs import UNICODE, Glyphs, clock_time, figure, percent, sparkline, thousands
from headrace.report.live_state import LiveState
from headrace.scaling.made import MadeForecast

WIDTH = 80
LABEL = 10  # width of a label column
SPARK = 16
MAX_ALERTS = 3
LEVEL_STYLE = {"info": "cyan", "warning": "yellow", "alarm": "bold red"}


def live_panel(state: LiveState, *, title: str, width: int = WIDTH, glyphs: Glyphs = UNICODE) -> RenderableType:
    """The panel for the state as it is now."""
    parts: list[RenderableType] = [_progress(state, glyphs), Text(""), _figures(state, glyphs)]
    if len(state.held_out) > 1 and state.forecast is not None:  # a run may well have two evaluations only
        parts.append(_forecast(state.forecast))
    if state.alerts:
        parts += [Text(""), *(_alert(alert) for alert in state.alerts[:MAX_ALERTS])]
    heading = Text.assemble((title, "bold"), (f" {glyphs.dot} ", "dim"), (state.phase, "cyan"))
    return Panel(
        Group(*parts), title=heading, title_align="left", box=box.ROUNDED, border_style="dim", width=min(width, WIDTH)
    )


def plain_line(state: LiveState) -> str:
    """The state in one line of plain ASCII text, for log files."""
    parts = [
        f"step {state.step}/{state.num_steps}",
        f"pass {figure(state.pass_rate)}",
        f"reward {figure(state.number('reward'))}",
        f"entropy {figure(state.number('entropy'), 3)}",
        f"lag {figure(state.number('lag_mean'), 1)} max {figure(state.number('lag_max'), 0)}",
        f"gen {thousands(state.number('generated_tokens_per_s'))} tok/s"
        f" idle {percent(state.number('generator_idle_frac'))}",
        f"train {thousands(state.number('trained_tokens_per_s'))} tok/s"
        f" idle {percent(state.number('trainer_idle_frac'))}",
        f"left {clock_time(state.time_left_s)}",
    ]
    return "  ".join(parts)


def alert_text(alert: Alert | str) -> str:
    """An alert in one sentence without its advice (the end report has that)."""
    return alert if isinstance(alert, str) else f"{alert.level}: {alert.name}: {alert.evidence}"


def alert_key(alert: Alert | str) -> str:
    """What makes two alerts the same although their figures differ."""
    return alert if isinstance(alert, str) else f"{alert.level}: {alert.name}"


def _progress(state: LiveState, glyphs: Glyphs) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True, justify="right")
    steps = Text.assemble(("step ", "dim"), (f"{state.step}/{state.num_steps or '-'}", "bold"))
    left = state.time_left_s
    clock = Text(clock_time(state.elapsed_s), "dim")
    if left is not None:
        clock.append(f" {glyphs.dot} ").append(f"{clock_time(left)} left", "not dim")
    row.add_row(steps, ProgressBar(total=max(1, state.num_steps), completed=state.step), clock)
    return row


def _figures(state: LiveState, glyphs: Glyphs) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for width in (LABEL, 6, SPARK + 3, LABEL - 1):
        grid.add_column(width=width, no_wrap=True)
    grid.add_column(no_wrap=True)
    curve = Text(sparkline(state.pass_rates, SPARK, bars=glyphs.bars), "green")
    grid.add_row(
        _label("pass rate"), _value(figure(state.pass_rate)), curve, _label("held out"), _held_out(state, glyphs)
    )
    entropy = Text.assemble(("entropy ", "dim"), figure(state.number("entropy"), 3))
    grid.add_row(_label("reward"), figure(state.number("reward")), entropy, _label("lag"), _lag(state, glyphs))
    grid.add_row(
        _label("generator"),
        thousands(state.number("generated_tokens_per_s")),
        _rate_and_idle(state.number("generator_idle_frac"), glyphs),
        _label("trainer"),
        Text(f"{thousands(state.number('trained_tokens_per_s'))} ").append_text(
            _rate_and_idle(state.number("trainer_idle_frac"), glyphs)
        ),
    )
    return grid


def _held_out(state: LiveState, glyphs: Glyphs) -> Text:
    if not state.held_out:
        return Text("-", "dim")
    text = _value(figure(state.held_out[0][1]))
    if len(state.held_out) > 1:
        version, rate = state.held_out[-1]
        text.append(f" {glyphs.arrow} ", "dim").append(figure(rate)).append(f" (step {version})", "not bold dim")
    return text


def _forecast(made: MadeForecast) -> Text:
    return Text.assemble(("forecast".ljust(LABEL + 1), "dim"), (forecast_line(made), "" if made.identified else "dim"))


def _lag(state: LiveState, glyphs: Glyphs) -> Text:
    text = Text(f"{figure(state.number('lag_mean'), 1)} mean {glyphs.dot} {figure(state.number('lag_max'), 0)} max")
    bound = state.number("max_lag")
    return text if bound is None else text.append(f" {glyphs.dot} bound {bound:.0f}", "dim")


def _rate_and_idle(idle: float | None, glyphs: Glyphs) -> Text:
    return Text.assemble(("tok/s ", "dim"), (f"{glyphs.dot} idle ", "dim"), percent(idle))


def _alert(alert: Alert | str) -> Text:
    style = LEVEL_STYLE[alert.level] if isinstance(alert, Alert) else "yellow"
    return Text(f"! {alert_text(alert)}", style)


def _label(text: str) -> Text:
    return Text(text, "dim")


def _value(text: str) -> Text:
    return Text(text, "bold")
