"""What a finished run prints: where it is, what it gained, what it cost, and one problem before and after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.health.alert import Alert
from headrace.metrics.evaluation import Example
from headrace.report.forecast_words import with_interval
from headrace.report.glyphs import UNICODE, Glyphs, figure, glyphs_for, percent
from headrace.report.live_panel import LEVEL_STYLE
from headrace.report.summary import RunSummary
from headrace.scaling.made import MadeForecast

WIDTH = 80
MAX_SHOWN_CHARS = 600


def print_final(
    console: Console,
    summary: RunSummary,
    *,
    run_folder: str | Path,
    curve: str | Path | None = None,
    pair: tuple[Example, Example] | None = None,
    max_lag: int | None = None,
    alerts: Sequence[Alert] = (),
    fit: MadeForecast | None = None,
) -> None:
    """Print the end of a run.

    ``pair`` is one prompt's completion (before, after), ``max_lag`` the bound, ``fit`` that of all evaluations; its
    ceiling is shown when it is identified.
    """
    glyphs = glyphs_for(console.encoding)
    table = _figures(summary, run_folder=run_folder, curve=curve, max_lag=max_lag, fit=fit, glyphs=glyphs)
    parts: list[RenderableType] = [Text(""), table]
    if pair is not None:
        parts += [Text(""), _side_by_side(*pair)]
    for alert in alerts:
        text = f"{alert.level}: {alert.name}: {alert.evidence}. {alert.cause} {alert.fix}"
        parts += [Text(""), Padding(Text(text, LEVEL_STYLE[alert.level]), (0, 1))]
    console.print(Group(*parts, Text("")), width=min(WIDTH, console.width))


def pick_pair(before: Sequence[Example], after: Sequence[Example]) -> tuple[Example, Example] | None:
    """One prompt of both evaluations, best one that was wrong and is right now; None when they share no prompt."""
    earlier = {example.prompt_id: example for example in before}
    pairs = [(earlier[example.prompt_id], example) for example in after if example.prompt_id in earlier]
    # False sorts before True: right after first, then wrong before, then the order of the evaluation
    return min(pairs, key=lambda pair: (not pair[1].passed, pair[0].passed), default=None)


def duration(seconds: float) -> str:
    """Seconds in words: 48 s, 1 min 52 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _figures(
    summary: RunSummary,
    *,
    run_folder: str | Path,
    curve: str | Path | None,
    max_lag: int | None,
    fit: MadeForecast | None,
    glyphs: Glyphs,
) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("held-out pass rate", _gain(summary, glyphs))
    if fit is not None and fit.identified:
        table.add_row("estimated ceiling", f"{with_interval(fit.A, fit.interval_A)}, of {fit.num_points} evaluations")
    table.add_row("wall time", f"{duration(summary.wall_s)}, {duration(summary.train_wall_s)} of it training")
    table.add_row("steps", str(summary.num_steps))
    table.add_row("trainer idle", percent(summary.trainer_idle_frac))
    table.add_row("generator idle", percent(summary.generator_idle_frac))
    bound = "" if max_lag is None else f" (bound {max_lag})"
    table.add_row("largest lag trained", f"{summary.max_lag_trained}{bound}")
    if summary.num_orphans:
        table.add_row("orphans", Text(f"{summary.num_orphans} processes of the run are still alive", "bold red"))
    table.add_row("run folder", Text(str(run_folder), "cyan"))
    if curve is not None:
        table.add_row("learning curve", Text(str(curve), "cyan"))
    return Padding(table, (0, 1))


def _gain(summary: RunSummary, glyphs: Glyphs = UNICODE) -> Text:
    before, after = summary.pass_rate_before, summary.pass_rate_after
    text = Text.assemble(f"{figure(before, 3)} {glyphs.arrow} ", (figure(after, 3), "bold"))
    if before is not None and after is not None:
        text.append(f"  ({after - before:+.3f})", "green" if after > before else "yellow")
    return text


def _side_by_side(before: Example, after: Example) -> RenderableType:
    heading = Text.assemble(("one held-out prompt  ", "dim"), (_shown(before.prompt), "bold"))
    if before.answer:
        heading.append(f"  (answer {before.answer})", "dim")
    table = Table.grid(expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(_completion("before", before), _completion("after", after))
    return Group(Padding(heading, (0, 1)), table)


def _completion(when: str, example: Example) -> Panel:
    verdict, style = ("right", "green") if example.passed else ("wrong", "red")
    text = Text(_shown(example.completion) or "(empty)", overflow="fold")
    title = Text.assemble(f"{when}: ", (verdict, style))
    return Panel(text, title=title, title_align="left", box=box.ROUNDED, border_style="dim")


def _shown(text: str) -> str:
    """Text as it may stand in a terminal: no control characters, not too long."""
    clean = "".join(c if c.isprintable() or c == "\n" else "?" for c in text.strip())
    return clean if len(clean) <= MAX_SHOWN_CHARS else f"{clean[:MAX_SHOWN_CHARS]} [...]"
