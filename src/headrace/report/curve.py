"""The learning curve of a run as a PNG, from ``metrics.jsonl`` and ``evals.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.tracking.eval_log import read_evals
from headrace.tracking.metrics_log import read_metrics

CURVE_FILE = "curve.png"
SMOOTHING = 8  # steps of the moving mean
TRAIN, HELD_OUT, GREY, BOUND = "#7aa6c2", "#c8553d", "#8a8f98", "#b0b4bb"
TRAIN_DARK = "#2f6f95"


def write_curve(run_folder: str | Path, *, title: str = "", max_lag: int | None = None) -> Path:
    """Draw ``curve.png`` into the run folder and return its path.

    Large panel: training pass rate of every step and its moving mean, held-out pass rate with bars of +-1.96 standard
    errors. Small panels: entropy, and mean and largest lag (with the bound ``max_lag``).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, height_ratios=[2.4, 1])
    metrics, evals = read_metrics(run_folder), read_evals(run_folder)
    last = max([1, *(int(row["step"]) for row in [*metrics, *evals])])
    axes = [figure.add_subplot(cell) for cell in (grid[0, :], grid[1, 0], grid[1, 1])]
    _pass_rates(axes[0], metrics, evals)
    _entropy(axes[1], metrics)
    _lag(axes[2], metrics, max_lag)
    for axis in axes:
        _plain(axis, last)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", parse_math=False)
    path = Path(run_folder) / CURVE_FILE
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png")
    temporary.replace(path)
    return path


def series(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Steps and values of one metric, steps without a finite value left out."""
    found = [(int(row["step"]), row["metrics"].get(name)) for row in rows]
    kept = [(step, float(value)) for step, value in found if value is not None]
    return [step for step, _ in kept], [value for _, value in kept]


def moving_mean(values: Sequence[float], width: int) -> list[float]:
    """Mean of the last ``width`` values at every place (fewer at the beginning)."""
    return [sum(part) / len(part) for i in range(len(values)) if (part := values[max(0, i + 1 - width) : i + 1])]


def _pass_rates(axis: Any, metrics: Sequence[Mapping[str, Any]], evals: Sequence[Mapping[str, Any]]) -> None:
    steps, rates = series(metrics, "reward/pass_rate")
    axis.plot(steps, rates, ".", color=TRAIN, markersize=3.5, alpha=0.55, label="training, each step")
    axis.plot(steps, moving_mean(rates, SMOOTHING), color=TRAIN_DARK, lw=1.8, label=f"training, mean of {SMOOTHING}")
    points = [row for row in evals if row.get("mean_at_n") is not None]
    if points:
        x, y = [row["version"] for row in points], [row["mean_at_n"] for row in points]
        bars = [1.96 * (row.get("standard_error") or 0.0) for row in points]
        style = {"color": HELD_OUT, "markersize": 5.5, "capsize": 3, "lw": 1.4, "zorder": 3}
        axis.errorbar(x, y, yerr=bars, fmt="o-", label="held out (95 %)", **style)
        _say_values(axis, x, y)
    axis.set_ylim(-0.02, 1.04)
    axis.set_ylabel("pass rate")
    axis.set_xlabel("step")
    if steps or points:
        axis.legend(loc="lower right", frameon=False, fontsize=9)


def _say_values(axis: Any, x: Sequence[int], y: Sequence[float]) -> None:
    """Write the first and the last held-out pass rate beside their points."""
    text = {"color": HELD_OUT, "fontsize": 10, "fontweight": "bold", "textcoords": "offset points", "zorder": 4}
    axis.annotate(f"{y[0]:.2f}", (x[0], y[0]), xytext=(9, -13), ha="left", **text)
    if len(x) > 1:
        axis.annotate(f"{y[-1]:.2f}", (x[-1], y[-1]), xytext=(-4, 10 if y[-1] < 0.93 else -19), ha="right", **text)


def _entropy(axis: Any, metrics: Sequence[Mapping[str, Any]]) -> None:
    steps, values = series(metrics, "loss/entropy")
    axis.plot(steps, values, color=GREY, lw=1.3)
    axis.set_ylim(bottom=0, top=None if values else 1)
    axis.locator_params(axis="y", nbins=4)
    axis.set_title("entropy, nats", loc="left", fontsize=9)


def _lag(axis: Any, metrics: Sequence[Mapping[str, Any]], max_lag: int | None) -> None:
    for name, label, color in (("rollout/lag_max", "max", GREY), ("rollout/lag_mean", "mean", TRAIN_DARK)):
        steps, values = series(metrics, name)
        axis.plot(steps, values, color=color, lw=1.3, drawstyle="steps-mid", label=label)
    if max_lag is not None:
        axis.axhline(max_lag, color=BOUND, lw=1.2, ls="--", label="bound")
    top = axis.get_ylim()[1]
    top = max(1.0, top) * 1.25
    axis.set_ylim(-0.04 * top, top)  # a lag of 0 must be seen above the axis
    axis.locator_params(axis="y", nbins=4, integer=True)
    axis.set_title("lag, steps", loc="left", fontsize=9)
    axis.legend(loc="upper right", frameon=False, fontsize=8, ncols=3, borderpad=0.1)


def _plain(axis: Any, last_step: int) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color("#c9ccd1")
    axis.tick_params(colors="#555a61", labelsize=9)
    axis.grid(axis="y", color="#eceef0", lw=0.8)
    axis.set_axisbelow(True)
    axis.set_xlim(-0.015 * last_step, 1.015 * last_step)
