"""Intervals of a fit's parameters and forecasts, by profile likelihood or from its bootstrap draws."""

from __future__ import annotations

import math

import numpy as np

from headrace.scaling.bootstrap import quantile_interval
from headrace.scaling.curve import Array
from headrace.scaling.estimate import PARAMETERS, problem_of
from headrace.scaling.least_squares import Problems, U
from headrace.scaling.profile import profile_ends
from headrace.scaling.result import Fit


def forecast_interval(fit: Fit, compute: float) -> tuple[float, float]:
    """Interval of the curve's value at ``compute`` > 0, by the method and level of the fit's options."""
    drawn = quantile_interval(fit.drawn_at(compute)[:, 0], fit.options.level)
    if fit.options.interval == "bootstrap":
        return drawn
    lower, upper = fit.box[0].copy(), fit.box[1].copy()
    lower[U], upper[U] = 0.0, 1.0  # a grid's box bounds the ceiling; on the way there the curve lies lower
    problems = problem_of(fit.runs, fit.noise.error, (lower, upper), reference=compute)
    theta = fit.theta.copy()
    theta[U] = float(fit.at(compute))
    return _outer(_profiled(fit, problems, theta, U), drawn, fit)


def parameter_interval(fit: Fit, name: str) -> tuple[float, float]:
    """Interval of ``A``, ``B``, ``C_mid`` or ``R0``, by the method and level of the fit's options."""
    problems = problem_of(fit.runs, fit.noise.error, fit.box)
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
