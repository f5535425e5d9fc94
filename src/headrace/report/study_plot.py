"""The learning curves of a study's variants in one picture that survives a grey printer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.report.curve import SMOOTHING
from headrace.report.study import Band, RunFigures, band, spread

CURVES_FILE = "curves.png"
MIN_EVALUATIONS = 3  # of every run, for held-out curves to be drawn; otherwise the training pass rate is
MAX_BANDS = 5  # with more variants bands would only hide each other

STYLES = (
    ("#000000", "-", "o"),
    ("#9c3d2e", "--", "s"),
    ("#2f6f95", "-.", "^"),
    ("#c58a1d", ":", "D"),
    ("#6b4f9a", (0, (6, 1.5, 1, 1.5, 1, 1.5)), "v"),
    ("#5d9e56", (0, (1, 1)), "P"),
    ("#8a8f98", (0, (8, 2)), "X"),
    ("#b76ba3", (0, (3, 1, 1, 1)), "*"),
)
"""Colour, line and marker of each variant: lines and markers alone tell them apart, the baseline is black and solid."""


def write_curves(
    path: str | Path, runs: Sequence[RunFigures], variants: Sequence[str], baseline: str, *, title: str = ""
) -> Path:
    """Draw mean line and min..max band over the seeds of every variant with a finished run; returns ``path``.

    Held-out pass rates where every run has ``MIN_EVALUATIONS`` of them at the same steps, else training pass rates.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    of = {variant: [run for run in runs if run.variant == variant] for variant in variants}
    drawn = [baseline, *(variant for variant in variants if variant != baseline)]
    drawn = [variant for variant in drawn if of.get(variant)]
    held_out = bool(runs) and len(band([run.held_out or {} for run in runs]).steps) >= MIN_EVALUATIONS
    figure = Figure(figsize=(9.5, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    for number, variant in enumerate(drawn):
        curves = [curve for run in of[variant] if (curve := run.held_out if held_out else run.training)]
        _draw(axis, band(curves), _label(variant, of[variant]), number, with_band=len(drawn) <= MAX_BANDS)
    axis.set_ylabel("held-out pass rate" if held_out else f"training pass rate, mean of {SMOOTHING} steps")
    axis.set_xlabel("step")
    _plain(axis)
    if drawn:
        figure.legend(loc="outside right upper", frameon=False, fontsize=9, handlelength=3.6)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", parse_math=False)
    path = Path(path)
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png")
    temporary.replace(path)
    return path


def _draw(axis: Any, curve: Band, label: str, number: int, *, with_band: bool) -> None:
    colour, line, marker = STYLES[number % len(STYLES)]
    every = max(1, len(curve.steps) // 8)
    if with_band:
        axis.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.13, lw=0)
    axis.plot(
        curve.steps, curve.mean, color=colour, ls=line, marker=marker, markevery=(number % every, every),
        ms=5, lw=1.7 if number else 2.3, label=label, zorder=3,
    )  # fmt: skip


def _label(variant: str, runs: Sequence[RunFigures]) -> str:
    after = spread(run.pass_rate_after for run in runs)
    if after is None:
        return variant
    return f"{variant}\n  ends at {after.mean:.3f}" + ("" if after.sd is None else f" ± {after.sd:.3f}")


def _plain(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color("#c9ccd1")
    axis.tick_params(colors="#555a61", labelsize=9)
    axis.grid(axis="y", color="#eceef0", lw=0.8)
    axis.set_axisbelow(True)
    axis.xaxis.get_major_locator().set_params(integer=True)
