import numpy as np
import pytest

from headrace.scaling import checked_points, fit_curve
from headrace.scaling.bounds import at_bounds
from headrace.scaling.identify import falling, too_short, too_wide
from tests.unit.scaling.curves import COMPUTE, N, noisy


def test_the_rules_at_their_limits():
    assert too_wide((0.60, 0.6499), 0.9) is None
    assert "wider than 0.05" in too_wide((0.60, 0.651), 0.9)
    assert too_short(100.0, 100.0) is None
    assert "below C_mid" in too_short(99.0, 100.0)


def test_bounds_that_refuse():
    lower, upper = np.array([0.0, 0, 1, -2]), np.array([1.0, 1, 9, 2])
    assert at_bounds(np.array([0.0, 0.5, 4, 0]), lower, upper) == []  # a model may start at 0
    assert at_bounds(np.array([0.2, 1.0, 4, 0]), lower, upper) == ["A is at the bound 1 of the search"]
    assert len(at_bounds(np.array([0.2, 1.0, 9, -2]), lower, upper)) == 3


@pytest.mark.parametrize("seed", range(5))
def test_data_that_end_at_the_middle_are_refused(seed):
    compute = np.concatenate([[0.0], np.linspace(1200, 2542, 50)])
    fit = fit_curve(compute, noisy(seed, compute), n=N)
    assert not fit.identified
    assert fit.reasons


def points(score, error=0.01):
    return checked_points(np.arange(1, len(score) + 1), score, error=error)


def test_a_worked_fall():
    """16 points, quarters of 4: means .5 and .46, error of a mean .005, of the difference .00707: 5.7 errors."""
    run = points([0.5] * 12 + [0.46] * 4)
    assert "5.66 standard errors below the running peak 0.5000" in falling(run, run.error)


def test_a_fall_of_less_than_three_errors_is_noise():
    run = points([0.5] * 12 + [0.48] * 4)
    assert falling(run, run.error) is None


def test_a_single_high_point_is_no_peak():
    score = np.full(40, 0.5)
    score[20] = 0.53
    run = points(score)
    assert falling(run, run.error) is None


def test_saturated_noise_is_not_called_a_fall():
    compute = np.concatenate([[0.0], np.linspace(1500, 60_000, 60)])
    fits = [fit_curve(compute, noisy(seed, compute), n=N, draws=20) for seed in range(40)]
    assert sum(not fit.identified for fit in fits) <= 1


def test_a_collapse_is_refused_with_and_without_stated_errors():
    y = noisy(0)
    y[-14:] -= np.linspace(0, 0.1, 14)
    for options in ({"n": N}, {}):
        fit = fit_curve(COMPUTE, y, **options)
        assert any("falls" in reason for reason in fit.reasons)
