"""The estimate itself: options, the least-squares problem of a set of runs, and theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.errors import ConfigError, DataError
from headrace.scaling.bounds import search_box
from headrace.scaling.curve import Array, log_compute
from headrace.scaling.defaults import LEVEL
from headrace.scaling.grid import GridRanges, default_ranges, grid_fit
from headrace.scaling.least_squares import LOG_B, LOG_MID, R0, Problems, U, predict, solve
from headrace.scaling.noise import expected_error
from headrace.scaling.points import Points
from headrace.scaling.starts import best_starts

METHODS = ("least_squares", "grid")
INTERVALS = ("profile", "bootstrap")
PARAMETERS = {"A": U, "B": LOG_B, "C_mid": LOG_MID, "R0": R0}  # places in theta


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to fit.

    ``R0`` holds the starting pass rate at a value instead of fitting it (the grid method needs one and takes the
    evaluation at C = 0 by default); ``draws`` bootstrap draws, made from ``seed``; ``level`` of the intervals.
    """

    method: str = "least_squares"
    interval: str = "profile"
    R0: float | None = None
    grid: GridRanges | None = None
    draws: int = 1000
    level: float = LEVEL
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS or self.interval not in INTERVALS:
            raise ConfigError(f"method must be one of {METHODS} and interval one of {INTERVALS}")
        if not 0 < self.level < 1 or self.draws < 20:
            raise ConfigError("level must lie between 0 and 1, and draws must be at least 20")
        if self.R0 is not None and not 0 <= self.R0 < 1:
            raise ConfigError(f"R0 is a pass rate; found {self.R0:g}")


def estimate(runs: Sequence[Points], options: Options) -> tuple[Problems, Array, float]:
    """One problem (with the errors expected of its points), theta (4,) of its optimum, and the sum of squares there."""
    return _on_grid(runs, options) if options.method == "grid" else _by_least_squares(runs, options)


def problem_of(runs: Sequence[Points], error: Array, box: tuple[Array, Array], reference: float = np.inf) -> Problems:
    """The runs' points one after the other as a single problem. ``error`` (N,); ``reference`` is C_ref."""
    compute = np.concatenate([run.compute for run in runs])
    score = np.concatenate([run.score for run in runs])
    lower, upper = box
    weight = (1.0 / error**2)[None, :]
    return Problems(
        log_compute(compute), score[None, :], weight, lower[None, :], upper[None, :], np.array([np.log(reference)])
    )


def _by_least_squares(runs: Sequence[Points], options: Options) -> tuple[Problems, Array, float]:
    """Weights come from the fitted curve, not from the scores, which would favour points that happen to lie far out."""
    problems = problem_of(runs, _errors(runs, None), search_box(runs, R0=options.R0))
    theta, total = solve(problems, best_starts(problems))
    for _ in range(2):
        rate = predict(problems.log_compute, theta, problems.log_reference)[0]
        problems = replace(problems, weight=1.0 / _errors(runs, rate)[None, :] ** 2)
        theta, total = solve(problems, theta)
    return problems, theta[0], float(total[0])


def _on_grid(runs: Sequence[Points], options: Options) -> tuple[Problems, Array, float]:
    base = _given_base(runs, options)
    together = _together(runs)
    grid = options.grid or default_ranges(together)
    theta = grid_fit(together, base, grid)
    lower, upper = search_box(runs, R0=base)
    lower[[U, LOG_MID]] = grid.ceilings[0], np.log(grid.mids[0])
    upper[[U, LOG_MID]] = grid.ceilings[-1], np.log(grid.mids[-1])
    rate = predict(log_compute(together.compute), theta[None, :], np.array([np.inf]))[0]
    error = expected_error(together, rate)
    problems = problem_of([together], error, (lower, upper))
    return problems, theta, float(np.sum(((together.score - rate) / error) ** 2))


def _given_base(runs: Sequence[Points], options: Options) -> float:
    if options.R0 is not None:
        return options.R0
    zeros = [run.score[0] for run in runs if run.compute[0] == 0]
    if not zeros:
        raise DataError(f"{runs[0].name}: the grid method needs R0: give it, or an evaluation at compute 0")
    return float(np.mean(zeros))


def _together(runs: Sequence[Points]) -> Points:
    """The points of all runs as one, runs one after the other."""
    first = runs[0]
    columns = []
    for parts in ([run.n for run in runs], [run.error for run in runs]):
        known = [part for part in parts if part is not None]
        columns.append(np.concatenate(known) if len(known) == len(parts) else None)
    compute, score = (np.concatenate([getattr(run, key) for run in runs]) for key in ("compute", "score"))
    return Points(compute, score, columns[0], columns[1], first.unit, first.name)


def _errors(runs: Sequence[Points], rate: Array | None) -> Array:
    """Expected errors of all points; without a curve yet, for the scores themselves."""
    score = np.concatenate([run.score for run in runs])
    guess = np.clip(score, 0.02, 0.98) if rate is None else rate
    parts = np.split(guess, np.cumsum([len(run) for run in runs])[:-1])
    return np.concatenate([expected_error(run, part) for run, part in zip(runs, parts)])
