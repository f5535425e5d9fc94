import numpy as np
import pytest

from headrace.scaling import fit_curve
from headrace.scaling.wander import _apply, _basis, _kernels, _trace, variance_inflation
from tests.unit.scaling.curves import COMPUTE, TRUE, N, exact, noisy


def drift(count, rho, rng):
    """A drift with standard deviation 1 and correlation ``rho`` of neighbours."""
    values = rng.standard_normal(count)
    for i in range(1, count):
        values[i] = rho * values[i - 1] + np.sqrt(1 - rho**2) * values[i]
    return values


def inflation_of_a_mean(rho, share, repeats=80, count=400):
    """Mean over repeats, for a mean (J = 1) of noise of which ``share`` is a drift."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(repeats):
        r = np.sqrt(share) * drift(count, rho, rng) + np.sqrt(1 - share) * rng.standard_normal(count)
        found.append(variance_inflation([r - r.mean()], [np.ones((1, count))]))
    return np.mean(found)


def test_a_mean_of_drifting_values_worked():
    """400 values, m = 21, K falls by rho = exp(-2 / 21) = .909 a step. A share of .2 that drifts like K makes the
    variance of a mean 1 + .2 * 2 rho / (1 - rho) = 5.0 times as large; white noise stays 1 in 95 % of cases."""
    assert inflation_of_a_mean(np.exp(-2 / 21), 0.2) == pytest.approx(5.0, rel=0.2)
    assert inflation_of_a_mean(0.0, 0.0) < 1.2


def test_a_drift_shorter_than_assumed_is_overstated_not_missed():
    """At rho .5 the truth is (1 + rho) / (1 - rho) = 3."""
    assert 3 < inflation_of_a_mean(0.5, 1.0) < 6


def test_traces_agree_with_whole_matrices():
    rng = np.random.default_rng(0)
    count = 30
    w, k = (np.concatenate([kernel, np.zeros(count - len(kernel))]) for kernel in _kernels(count))
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    q = _basis(rng.standard_normal((4, count)))
    left = np.eye(count) - q @ q.T
    assert _apply(w, q) == pytest.approx(w[distance] @ q)
    whole = np.trace(w[distance] @ left @ k[distance] @ left)
    assert _trace(w, k, q, w[distance] @ q, k[distance] @ q, count) == pytest.approx(whole)


def test_white_noise_is_left_alone_in_most_fits():
    wander = [fit_curve(COMPUTE, noisy(seed), n=N, draws=20).noise.wander for seed in range(60)]
    assert np.mean(np.array(wander) > 1) < 0.15


def test_a_drift_is_noticed_and_more_intervals_hold_the_truth():
    rng = np.random.default_rng(1)
    noticed, held, naive = [], [], []
    for seed in range(60):
        y = noisy(seed) + np.concatenate([[0.0], 0.006 * drift(50, 0.8, rng)])
        fit = fit_curve(COMPUTE, y, n=N, draws=20)
        noticed.append(fit.noise.wander > 1)
        low, high = fit.intervals["A"]
        held.append(low <= TRUE["A"] <= high)
        half = (high - low) / 2 / fit.noise.wander
        naive.append(abs(fit.A - TRUE["A"]) <= half)
    assert np.mean(noticed) > 0.5
    assert np.mean(held) > np.mean(naive) + 0.08
    assert any("neighbouring evaluations err alike" in note for note in fit.notes) == noticed[-1]


def test_many_points_take_no_longer_than_they_should():
    compute = np.concatenate([[0.0], np.linspace(1000, 8000, 3000)])
    assert fit_curve(compute, exact(compute), n=N, draws=20).noise.wander == 1.0
