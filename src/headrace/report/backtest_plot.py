"""A run's earlier forecasts of its end as a picture: what was said when, against what came."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.report.forecast_words import short_reason, with_interval
from headrace.report.picture import check_suffix, save_picture
from headrace.scaling.backtest import Backtest, Tested

SAID, MISSED, CAME, REFUSED = "#2f6f95", "#c8553d", "#e08a1e", "#8a8f98"


def write_backtest_plot(path: str | Path, found: Sequence[Backtest]) -> None:
    """Write ``path`` (.png or .html, by its suffix): one panel a run, forecasts with their intervals over the step they
    were made at, what came as a line with a band of one standard error; ticks at the foot where nothing was said."""
    path = Path(path)
    check_suffix(path)
    table = "".join(_rows(backtest) for backtest in found)
    save_picture(path, _figure(found), title="Forecasts and what came", table=table)


def cells(test: Tested) -> tuple[str, str, str, str, str]:
    """Made at (and share of the compute expected by the end), for, said, came, inside: a row of the table, as text."""
    made = test.made
    share = "" if not made.target_compute else f" ({made.compute / made.target_compute:.0%})"
    said = "nothing: " + short_reason(made) if made.value is None else with_interval(made.value, made.interval)
    inside = "-" if test.inside is None else "yes" if test.inside else "no"
    return (
        f"step {made.version}{share}",
        f"step {made.target_step}",
        said,
        f"{test.came:.3f} +- {test.error:.3f}",
        inside,
    )


def _figure(found: Sequence[Backtest]) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6 * len(found)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for number, backtest in enumerate(found, 1):
        _draw(figure.add_subplot(len(found), 1, number), backtest)
    return figure


def _draw(axis: Any, backtest: Backtest) -> None:
    for inside, colour, label in ((True, SAID, "forecast, held"), (False, MISSED, "forecast, missed")):
        tests = [test for test in backtest.said if test.inside is inside]
        if tests:
            _forecasts(axis, tests, colour, label)
    for number, end in enumerate({test.made.target_step: test for test in backtest.tests}.values()):
        label = "what came" if number == 0 else "_"
        axis.axhspan(end.came - end.error, end.came + end.error, color=CAME, alpha=0.2, lw=0)
        axis.axhline(end.came, color=CAME, lw=1.4, label=label)
    silent = [test.made.version for test in backtest.tests if test.made.value is None]
    if silent:
        foot = axis.get_xaxis_transform()
        axis.plot(silent, [0.03] * len(silent), "|", color=REFUSED, ms=9, transform=foot, label="nothing said")
    axis.set_title(backtest.name, loc="left", fontsize=10, parse_math=False)
    axis.set_xlabel("step the forecast was made at")
    axis.set_ylabel("held-out pass rate at the end")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#eceef0", lw=0.8)
    axis.legend(loc="best", frameon=False, fontsize=9)


def _forecasts(axis: Any, tests: Sequence[Tested], colour: str, label: str) -> None:
    values = [test.made.value or 0.0 for test in tests]
    ends = [test.made.interval or (0.0, 0.0) for test in tests]
    bars = [
        [value - low for value, (low, _) in zip(values, ends)],
        [high - value for value, (_, high) in zip(values, ends)],
    ]
    at = [test.made.version for test in tests]
    axis.errorbar(at, values, yerr=bars, fmt="o", color=colour, ms=4, capsize=3, lw=1.2, label=label)


def _rows(backtest: Backtest) -> str:
    names = ("made at", "for", "said", "came", "inside")
    head = f"<tr><th colspan=5>{html.escape(backtest.name)}</th></tr>" + _row(names, "th")
    return head + "".join(_row(cells(test), "td") for test in backtest.tests)


def _row(texts: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"
