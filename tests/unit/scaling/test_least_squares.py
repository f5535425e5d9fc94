import numpy as np
import pytest

from headrace.scaling.curve import log_compute
from headrace.scaling.least_squares import Problems, covariance, predict, solve
from headrace.scaling.starts import best_starts
from tests.unit.scaling.curves import COMPUTE, TRUE, exact, noisy

THETA = np.array([[0.25, 0.61, np.log(2542), np.log(1.92)]])
LOWER, UPPER = np.array([0.0, 0, np.log(100), np.log(0.1)]), np.array([1.0, 1, np.log(1e5), np.log(10)])


def problems(scores, reference=np.inf, lower=LOWER, upper=UPPER, error=0.004):
    scores = np.atleast_2d(scores)
    rows = len(scores)
    return Problems(
        log_compute(COMPUTE),
        scores,
        np.full(scores.shape, error**-2.0),
        np.repeat(lower[None], rows, 0),
        np.repeat(upper[None], rows, 0),
        np.full(rows, np.log(reference)),
    )


def test_exact_data_give_exact_parameters_from_the_grid_start():
    found, total = solve(problems(exact()), best_starts(problems(exact())))
    assert found[0] == pytest.approx(THETA[0], abs=1e-6)
    assert total[0] < 1e-6


def test_the_same_optimum_as_scipy():
    from scipy.optimize import least_squares

    y = noisy(3)
    x = log_compute(COMPUTE)
    theirs = least_squares(lambda t: (predict(x, t[None], np.array([np.inf]))[0] - y) / 0.004, THETA[0], xtol=1e-12)
    ours, total = solve(problems(y), best_starts(problems(y)))
    assert ours[0] == pytest.approx(theirs.x, abs=1e-5)
    assert total[0] == pytest.approx(2 * theirs.cost, rel=1e-9)


def test_rows_are_independent():
    scores = np.stack([noisy(1), noisy(2), noisy(3)])
    together = solve(problems(scores), np.repeat(THETA, 3, 0))[0]
    alone = np.concatenate([solve(problems(y), THETA)[0] for y in scores])
    assert together == pytest.approx(alone, abs=1e-8)


def test_a_reference_compute_turns_the_forecast_into_a_parameter():
    theta = THETA.copy()
    theta[0, 1] = exact(16000.0)
    at = problems(exact(), reference=16000.0)
    assert predict(at.log_compute, theta, at.log_reference)[0] == pytest.approx(exact())
    assert solve(at, theta + 0.01)[0][0] == pytest.approx(theta[0], abs=1e-6)


@pytest.mark.parametrize("reference", [np.inf, 16000.0])
def test_derivatives_agree_with_differences(reference):
    """The gradient of half the sum of squares is -J' W r; differences of the sum itself check every column."""
    from headrace.scaling.least_squares import _normal_equations

    at = problems(noisy(4), reference=reference)
    total, gradient, _ = _normal_equations(at, THETA)
    for i in range(4):
        moved = [THETA + sign * 1e-6 * np.eye(4)[i] for sign in (1, -1)]
        up, down = (_normal_equations(at, theta)[0][0] for theta in moved)
        assert -(up - down) / 4e-6 == pytest.approx(gradient[0, i], rel=1e-4, abs=1e-3 * abs(total[0]))


def test_a_parameter_is_held_by_equal_bounds_and_stays_in_the_box():
    lower, upper = LOWER.copy(), UPPER.copy()
    lower[1] = upper[1] = 0.6
    found = solve(problems(exact(), lower=lower, upper=upper), THETA)[0]
    assert found[0, 1] == 0.6
    upper = UPPER.copy()
    upper[1] = 0.58
    found = solve(problems(exact(), upper=upper), THETA)[0]
    assert found[0, 1] == 0.58
    assert (found >= LOWER).all()


def test_covariance_says_how_far_estimates_of_redrawn_data_lie():
    scores = np.stack([noisy(seed) for seed in range(300)])
    found = solve(problems(scores), np.repeat(THETA, 300, 0))[0]
    error = np.sqrt(np.diag(covariance(problems(exact(), error=0.0038), THETA)[0]))
    assert found.std(axis=0) == pytest.approx(error, rel=0.2)
    assert abs(found.mean(axis=0)[1] - TRUE["A"]) < 0.001
