"""A learning curve's fit as a picture: points, curve, band, and in another colour the points it has not seen."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.report.picture import check_suffix, save_picture
from headrace.scaling.points import Points
from headrace.scaling.result import Fit

COLOURS = ("#2f6f95", "#c8553d", "#5a8f4e", "#8a6bb0", "#b08a2e", "#4a4f57")
HELD_OUT = "#e08a1e"
_REFUSED = "not identified: do not read it beyond the data"


def write_plot(
    path: str | Path, fits: Sequence[Fit], names: Sequence[str], *, held_out: Sequence[Sequence[Points]]
) -> None:
    """Write ``path`` (.png or .html, by its suffix). ``held_out`` are, per fit, the points that were not fitted.

    The HTML file is whole by itself: the picture is an inline SVG beside a table of the estimates.
    """
    path = Path(path)
    check_suffix(path)
    save_picture(path, _figure(fits, names, held_out), title="Learning curve", table=_table(fits, names))


def _figure(fits: Sequence[Fit], names: Sequence[str], held_out: Sequence[Sequence[Points]]) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    unseen = [run for runs in held_out for run in runs if len(run)]
    end = max([fit.largest_compute for fit in fits] + [float(run.compute[-1]) for run in unseen])
    for fit, name, colour in zip(fits, names, COLOURS * (1 + len(fits) // len(COLOURS))):
        _draw(axis, fit, name, colour, end)
    for i, run in enumerate(unseen):
        label = "held out from the fit" if i == 0 else None
        axis.plot(run.compute, run.score, "D", color=HELD_OUT, markersize=3.6, label=label, zorder=4)
    unit = fits[0].unit
    axis.set_xlabel("compute" if unit == "compute" else f"compute, {unit}")
    axis.set_ylabel("held-out pass rate")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#eceef0", lw=0.8)
    axis.set_axisbelow(True)
    axis.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def _draw(axis: Any, fit: Fit, name: str, colour: str, end: float) -> None:
    """Points with bars of one error; curve and band to ``end``, dotted beyond the data, and there only if allowed."""
    errors = np.split(fit.noise.error, np.cumsum([len(run) for run in fit.runs])[:-1])
    for run, error in zip(fit.runs, errors):
        axis.errorbar(run.compute, run.score, yerr=error, fmt="o", color=colour, ms=3.2, lw=0.8, alpha=0.6)
    if math.isnan(fit.A):
        axis.plot([], [], "o", color=colour, label=f"{name}: no rise to fit")
        return
    last = fit.largest_compute
    known = f"A {fit.A:.3f}, B {fit.B:.2f}, C_mid {fit.C_mid:.4g}" if fit.identified else _REFUSED
    _line(axis, fit, np.linspace(0, last, 300), colour, "-", f"{name}: {known}")
    if fit.identified and end > last:
        _line(axis, fit, np.linspace(last, end, 200), colour, ":", None)


def _line(axis: Any, fit: Fit, at: np.ndarray, colour: str, style: str, label: str | None) -> None:
    low, high = fit.band(at)
    axis.fill_between(at, low, high, color=colour, alpha=0.18, lw=0)
    axis.plot(at, fit.at(at), style, color=colour, lw=1.8, label=label, zorder=3)


def _table(fits: Sequence[Fit], names: Sequence[str]) -> str:
    level, unit = f"{fits[0].options.level:.0%}", html.escape(fits[0].unit)
    head = f"<tr><th></th><th>A ({level})</th><th>B</th><th>C_mid, {unit}</th><th>R0</th><th>identified</th></tr>"
    return head + "".join(_row(fit, name) for fit, name in zip(fits, names))


def _row(fit: Fit, name: str) -> str:
    cells = [name]
    for key in ("A", "B", "C_mid", "R0"):
        low, high = fit.intervals[key]
        value = getattr(fit, key)
        cells.append("-" if math.isnan(value) else f"{value:.4g} ({low:.4g} .. {high:.4g})")
    cells.append("yes" if fit.identified else "no: " + "; ".join(fit.reasons))
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
