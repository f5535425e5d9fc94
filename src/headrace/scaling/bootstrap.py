"""Parametric bootstrap of a fit, all draws in one vectorised solve, and what several seeds add to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.scaling.curve import Array
from headrace.scaling.least_squares import Problems, predict, solve

_TOGETHER = 250  # draws solved at a time: their arrays stay in the processor's cache


def bootstrap(problems: Problems, theta: Array, num_draws: int, rng: np.random.Generator) -> Array:
    """``num_draws`` refits, (num_draws, 4), to scores drawn about the fitted curve with the errors of the weights.

    ``problems`` holds one row and ``theta`` (4,) is its optimum. Scores are drawn, not points: a curve of 20
    evaluations resampled without its first ones would say nothing about R0.
    """
    rate = predict(problems.log_compute, theta[None, :], problems.log_reference)
    drawn = rate + rng.standard_normal((num_draws, rate.shape[1])) / np.sqrt(problems.weight)
    parts = [_refit(problems, theta, drawn[i : i + _TOGETHER]) for i in range(0, num_draws, _TOGETHER)]
    return np.concatenate(parts)


def _refit(problems: Problems, theta: Array, drawn: Array) -> Array:
    same = problems.take(np.zeros(len(drawn), dtype=int))
    return solve(replace(same, score=drawn), np.repeat(theta[None, :], len(drawn), axis=0), tolerance=1e-7)[0]


def with_seeds(
    draws: Array, run_thetas: Array, share: float, bounds: tuple[Array, Array], rng: np.random.Generator
) -> Array:
    """``draws`` (D, 4) of the recipe's mean curve, moved by what the seeds of its K runs may do to that mean.

    ``run_thetas`` (K, 4) are the runs' own fits. A draw is moved by the runs' deviations from their mean in random
    proportion, scaled so that every parameter follows Student's t with K - 1 degrees of freedom and the standard error
    of a mean of K runs; their correlations are kept. ``share`` of the deviations is the seeds' (``seed_share``), the
    rest is evaluation noise, which the draws hold already.
    """
    k = len(run_thetas)
    deviations = share * (run_thetas - run_thetas.mean(axis=0)) / np.sqrt(k * (k - 1))
    tails = np.sqrt(rng.chisquare(k - 1, size=(len(draws), 1)) / (k - 1))
    moved = draws + rng.standard_normal((len(draws), k)) @ deviations / tails
    return np.clip(moved, *bounds)


def seed_share(run_thetas: Array, precisions: Array, num_free: int) -> float:
    """The share, 0..1, of the runs' spread that evaluation noise does not explain (a standard deviation's share).

    ``precisions`` (K, 4, 4) are the inverse covariances of ``run_thetas`` (K, 4). Without seed variance the spread
    Q = sum d' P d about the weighted mean follows chi-squared with ``num_free`` (K - 1) degrees of freedom; what
    exceeds that is the seeds' (DerSimonian and Laird 1986, for several parameters at once).
    """
    total = precisions.sum(axis=0)
    mean = np.linalg.lstsq(total, np.einsum("kij,kj->i", precisions, run_thetas), rcond=None)[0]
    away = run_thetas - mean
    spread = float(np.einsum("ki,kij,kj->", away, precisions, away))
    expected = num_free * (len(run_thetas) - 1)
    return float(np.sqrt(max(0.0, 1.0 - expected / spread))) if spread > 0 else 0.0


def quantile_interval(values: Array, level: float) -> tuple[float, float]:
    """The middle ``level`` of draws, by quantiles."""
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)
