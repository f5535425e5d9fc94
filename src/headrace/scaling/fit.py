"""``fit_curve``: the sigmoid fitted to a run's evaluations, with intervals, or the reason why it says nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headrace.scaling import identify
from headrace.scaling.bootstrap import bootstrap, seed_share, with_seeds
from headrace.scaling.bounds import at_bounds
from headrace.scaling.curve import Array
from headrace.scaling.estimate import PARAMETERS, Options, estimate
from headrace.scaling.intervals import parameter_interval
from headrace.scaling.least_squares import LOG_B, LOG_MID, R0, Problems, U, jacobian, precision, predict
from headrace.scaling.noise import Noise, judge
from headrace.scaling.points import Points, check_fittable, check_same_unit, checked_points
from headrace.scaling.result import Fit
from headrace.scaling.wander import variance_inflation


def fit_curve(
    compute: ArrayLike,
    score: ArrayLike,
    *,
    n: ArrayLike | None = None,
    error: ArrayLike | None = None,
    unit: str = "compute",
    name: str = "the curve",
    **options: Any,
) -> Fit:
    """Fit R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B) to one run.

    ``compute`` (N,) >= 0 in any one unit, with 0 for the evaluation before training; ``score`` (N,) held-out pass rates
    in 0..1; ``n`` completions behind each score, or ``error`` their standard errors, one number or (N,). Without either
    the scatter about the curve is taken as the error. ``options`` are the fields of ``Options``.

    Raises ``DataError`` for input no curve can be fitted to, ``ConfigError`` for options. Source: arXiv 2510.13786,
    section 2.1 and appendix A.5; R0 is fitted along, which the paper leaves open.
    """
    return fit_runs([checked_points(compute, score, n=n, error=error, unit=unit, name=name)], Options(**options))


def fit_runs(runs: Sequence[Points], options: Options | None = None) -> Fit:
    """One curve for one run, or for several runs of a recipe that differ in their seed.

    The spread of the seeds' own curves then enters every interval (``bootstrap.with_seeds``).
    """
    options = options or Options()
    check_same_unit(runs)
    for run in runs:
        check_fittable(run)
    runs = _alike(runs)
    rng = np.random.default_rng(options.seed)
    problems, theta, total = estimate(runs, options)
    error = 1 / np.sqrt(problems.weight[0])
    num_free = int(np.sum(problems.lower[0] < problems.upper[0]))
    stated = all(run.n is not None or run.error is not None for run in runs)
    alone = [estimate([run], options) for run in runs] if len(runs) > 1 else [(problems, theta, total)]
    # Scatter is judged run by run: the distance between the curves of two seeds is no error of an evaluation.
    noise = judge(error, stated, sum(sums for _, _, sums in alone), num_free * len(runs), options.level)
    wander = math.sqrt(_inflation(alone, noise, runs))
    noise = replace(noise, error=noise.error * wander, wander=wander)
    problems = replace(problems, weight=1 / noise.error[None, :] ** 2)
    total *= float((error[0] / noise.error[0]) ** 2)
    no_rise = identify.flat(runs, theta, total, noise.error)
    if no_rise:
        return _refused(runs, options, noise, no_rise)
    draws = bootstrap(problems, theta, options.draws, rng)
    run_thetas = np.empty((0, 4))
    if len(runs) > 1:
        run_thetas = np.stack([own for _, own, _ in alone])
        precisions = [
            precision(replace(problem, weight=1 / part[None, :] ** 2), own[None, :])[0]
            for (problem, own, _), part in zip(alone, _split(noise.error, runs))
        ]
        share = seed_share(run_thetas, np.stack(precisions), num_free)
        draws = with_seeds(draws, run_thetas, share, (problems.lower[0], problems.upper[0]), rng)
    fit = Fit(
        A=float(theta[U]),
        B=math.exp(theta[LOG_B]),
        C_mid=math.exp(theta[LOG_MID]),
        R0=float(theta[R0]),
        intervals={},
        identified=False,
        reasons=(),
        notes=tuple(_notes(runs, noise)),
        options=options,
        unit=runs[0].unit,
        runs=tuple(runs),
        noise=noise,
        theta=theta,
        draws=draws,
        run_thetas=run_thetas,
        sum_of_squares=total,
        box=(problems.lower[0], problems.upper[0]),
    )
    intervals = {name: parameter_interval(fit, name) for name in PARAMETERS}
    reasons = _reasons(replace(fit, intervals=intervals))
    return replace(fit, intervals=intervals, reasons=tuple(reasons), identified=not reasons)


def _inflation(alone: Sequence[tuple[Problems, Array, float]], noise: Noise, runs: Sequence[Points]) -> float:
    """``variance_inflation`` of the runs' own fits."""
    residuals, jacobians = [], []
    for (problem, theta, _), error in zip(alone, _split(noise.error, runs)):
        rate = predict(problem.log_compute, theta[None, :], problem.log_reference)[0]
        free = (problem.lower[0] < problem.upper[0])[:, None]
        residuals.append((problem.score[0] - rate) / error)
        jacobians.append(jacobian(problem, theta[None, :])[0] * free / error)
    return variance_inflation(residuals, jacobians)


def _alike(runs: Sequence[Points]) -> list[Points]:
    """Errors count only when every run states them: stated and unstated ones are on no common scale."""
    if all(run.n is not None or run.error is not None for run in runs):
        return list(runs)
    return [replace(run, n=None, error=None) for run in runs]


def _split(values: Array, runs: Sequence[Points]) -> list[Array]:
    return np.split(values, np.cumsum([len(run) for run in runs])[:-1])


def _reasons(fit: Fit) -> list[str]:
    """Why the curve must not be used beyond the data; [] when it may."""
    errors = _split(fit.noise.single, fit.runs)
    found = [
        identify.too_wide(fit.intervals["A"], fit.options.level),
        *at_bounds(fit.theta, *fit.box),
        identify.too_short(fit.largest_compute, fit.C_mid),
        *(identify.falling(run, error) for run, error in zip(fit.runs, errors)),
    ]
    return [reason for reason in found if reason]


def _notes(runs: Sequence[Points], noise: Noise) -> list[str]:
    notes = []
    if any(run.compute[0] > 0 for run in runs):
        notes.append("no evaluation at compute 0: R0 rests on the shape of the curve alone")
    if not noise.stated:
        notes.append(
            "no errors and no counts came with the scores: their scatter about the curve is taken as the error"
        )
    if noise.excess > 1:
        notes.append(f"the scatter is {noise.excess:.2f} times the stated errors: all intervals are wider by that")
    if noise.wander > 1:
        notes.append(f"neighbouring evaluations err alike: all intervals are {noise.wander:.2f} times as wide for that")
    return notes


def _refused(runs: Sequence[Points], options: Options, noise: Noise, reason: str) -> Fit:
    """A fit without numbers: there is no rise to describe."""
    nothing = (math.nan, math.nan)
    return Fit(
        A=math.nan,
        B=math.nan,
        C_mid=math.nan,
        R0=math.nan,
        intervals=dict.fromkeys(PARAMETERS, nothing),
        identified=False,
        reasons=(reason,),
        notes=tuple(_notes(runs, noise)),
        options=options,
        unit=runs[0].unit,
        runs=tuple(runs),
        noise=noise,
        theta=np.full(4, math.nan),
        draws=np.empty((0, 4)),
        run_thetas=np.empty((0, 4)),
        sum_of_squares=math.nan,
        box=(np.full(4, math.nan), np.full(4, math.nan)),
    )
