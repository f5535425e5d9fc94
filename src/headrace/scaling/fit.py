"""``fit_curve``: the sigmoid fitted to a run's evaluations, with intervals, or the reason why it says nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headrace.scaling import identify
from headrace.scaling.bootstrap import bootstrap, quantile_interval, seed_share, with_seeds
from headrace.scaling.bounds import at_bounds
from headrace.scaling.curve import Array, log_compute, sigmoid
from headrace.scaling.estimate import PARAMETERS, Options, estimate, problem_of
from headrace.scaling.least_squares import LOG_B, LOG_MID, R0, Problems, U, precision, predict
from headrace.scaling.noise import Noise, judge
from headrace.scaling.points import Points, check_fittable, check_same_unit, checked_points
from headrace.scaling.profile import profile_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted curve, or a refusal.

    ``A``, ``R0`` pass rates, ``C_mid`` in ``unit``, ``B`` without unit; all NaN when there was no rise to fit.
    ``intervals``: for A, B, C_mid and R0 the two ends at ``level``. ``identified`` says whether the curve may be used
    beyond the data; if not, ``reasons`` say why. ``notes`` are worth knowing and forbid nothing. ``theta`` (4,) and
    ``draws`` (D, 4) are (R0, A, ln C_mid, ln B); ``run_thetas`` (K, 4) the fits of single seeds, empty for one run.
    """

    A: float
    B: float
    C_mid: float
    R0: float
    intervals: dict[str, tuple[float, float]]
    identified: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    options: Options
    unit: str
    runs: tuple[Points, ...]
    noise: Noise
    theta: Array
    draws: Array
    run_thetas: Array
    sum_of_squares: float
    box: tuple[Array, Array]

    @property
    def largest_compute(self) -> float:
        return max(float(run.compute[-1]) for run in self.runs)

    def at(self, compute: ArrayLike) -> Array:
        """The fitted pass rate, same shape as ``compute``. It does not ask whether the curve is identified."""
        return sigmoid(compute, self.A, self.B, self.C_mid, self.R0)

    def drawn_at(self, compute: ArrayLike) -> Array:
        """The pass rate of every bootstrap draw, (D, len(compute))."""
        c = np.atleast_1d(np.asarray(compute, dtype=np.float64))
        return predict(log_compute(c), self.draws, np.full(len(self.draws), np.inf))

    def band(self, compute: ArrayLike) -> tuple[Array, Array]:
        """Pointwise band of the curve at ``options.level``: lower and upper, (len(compute),)."""
        tail = 0.5 - self.options.level / 2
        low, high = np.quantile(self.drawn_at(compute), [tail, 1 - tail], axis=0)
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not a number becomes None."""
        values = {name: getattr(self, name) for name in PARAMETERS}
        ends = {f"interval_{name}": list(self.intervals[name]) for name in PARAMETERS}
        said: dict[str, Any] = {
            "identified": self.identified,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "method": self.options.method,
            "interval_method": self.options.interval,
            "level": self.options.level,
            "unit": self.unit,
            "runs": [run.name for run in self.runs],
            "num_points": sum(len(run) for run in self.runs),
            "largest_compute": self.largest_compute,
            "error_excess": self.noise.excess,
        }
        return {name: _no_nan(value) for name, value in (values | ends).items()} | said


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
    intervals = {name: _interval(fit, problems, name) for name in PARAMETERS}
    reasons = _reasons(replace(fit, intervals=intervals))
    return replace(fit, intervals=intervals, reasons=tuple(reasons), identified=not reasons)


def forecast_interval(fit: Fit, compute: float) -> tuple[float, float]:
    """Interval of the curve's value at ``compute`` > 0, by the method and level of the fit's options."""
    drawn = quantile_interval(fit.drawn_at(compute)[:, 0], fit.options.level)
    if fit.options.interval == "bootstrap":
        return drawn
    problems = problem_of(fit.runs, fit.noise.error, fit.box, reference=compute)
    theta = fit.theta.copy()
    theta[U] = float(fit.at(compute))
    return _outer(_profiled(fit, problems, theta, U), drawn, fit)


def _alike(runs: Sequence[Points]) -> list[Points]:
    """Errors count only when every run states them: stated and unstated ones are on no common scale."""
    if all(run.n is not None or run.error is not None for run in runs):
        return list(runs)
    return [replace(run, n=None, error=None) for run in runs]


def _split(values: Array, runs: Sequence[Points]) -> list[Array]:
    return np.split(values, np.cumsum([len(run) for run in runs])[:-1])


def _interval(fit: Fit, problems: Problems, name: str) -> tuple[float, float]:
    index = PARAMETERS[name]
    drawn = quantile_interval(fit.draws[:, index], fit.options.level)
    if problems.lower[0, index] == problems.upper[0, index]:
        ends = (float(fit.theta[index]), float(fit.theta[index]))
    elif fit.options.interval == "bootstrap":
        ends = drawn
    else:
        ends = _outer(_profiled(fit, problems, fit.theta, index), drawn, fit)
    return (math.exp(ends[0]), math.exp(ends[1])) if name in ("B", "C_mid") else ends


def _profiled(fit: Fit, problems: Problems, theta: Array, index: int) -> tuple[float, float]:
    total, z = np.array([fit.sum_of_squares]), np.array([fit.noise.z])
    low, high = profile_ends(problems, theta[None, :], total, index, z)
    return float(low[0]), float(high[0])


def _outer(profiled: tuple[float, float], drawn: tuple[float, float], fit: Fit) -> tuple[float, float]:
    """The profile knows nothing of seeds: with several runs the interval reaches as far as their spread does."""
    if len(fit.run_thetas) == 0:
        return profiled
    return min(profiled[0], drawn[0]), max(profiled[1], drawn[1])


def _reasons(fit: Fit) -> list[str]:
    """Why the curve must not be used beyond the data; [] when it may."""
    alone = fit.noise.error / fit.noise.excess if fit.noise.stated else np.zeros_like(fit.noise.error)
    errors = _split(alone, fit.runs)
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


def _no_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_no_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
