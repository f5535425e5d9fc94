"""From a finished run's folder to the figures a study compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.config.load import load_recipe
from headrace.report.curve import SMOOTHING, moving_mean, series
from headrace.report.study import RunFigures
from headrace.report.summary import read_summary
from headrace.tracking.attempts import last_steps
from headrace.tracking.eval_log import read_evals
from headrace.tracking.metrics_log import read_metrics

LAST_FRAC = 0.1
"""Entropy and positive share are means over this last part of the steps, one at least."""

ENTROPY, POSITIVE_SHARE = "loss/entropy", "loss/positive_share"


def read_run(folder: str | Path, *, variant: str) -> RunFigures:
    """The figures of one run. Raises ``DataError`` when it has not finished.

    A run that was interrupted has no training time: its summary holds the time of its last attempt only.
    """
    summary, metrics, evals = read_summary(folder), read_metrics(folder), read_evals(folder)
    whole = len(last_steps(folder)) < 2 and summary.train_wall_s > 0
    batch = load_recipe(folder).batch
    samples = summary.num_steps * batch.groups_per_step * batch.group_size
    steps, rates = series(metrics, "reward/pass_rate")
    return RunFigures(
        variant=variant,
        seed=summary.seed,
        pass_rate_before=summary.pass_rate_before,
        pass_rate_after=summary.pass_rate_after,
        entropy=last_mean(metrics, ENTROPY),
        train_s=summary.train_wall_s if whole else None,
        samples_per_s=samples / summary.train_wall_s if whole else None,
        max_lag=summary.max_lag_trained,
        positive_share=last_mean(metrics, POSITIVE_SHARE),
        held_out={int(row["version"]): row["mean_at_n"] for row in evals if row.get("mean_at_n") is not None},
        training=dict(zip(steps, moving_mean(rates, SMOOTHING))),
    )


def last_mean(metrics: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Mean of a metric over the last ``LAST_FRAC`` of the steps that have it; None when none does."""
    _, values = series(metrics, name)
    tail = values[-max(1, round(LAST_FRAC * len(values))) :]
    return sum(tail) / len(tail) if tail else None
