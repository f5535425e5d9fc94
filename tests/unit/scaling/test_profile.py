import numpy as np
import pytest

from headrace.scaling import fit_curve
from headrace.scaling.estimate import problem_of
from headrace.scaling.least_squares import solve
from tests.unit.scaling.curves import COMPUTE, N, noisy


@pytest.mark.parametrize(("name", "index"), [("A", 1), ("C_mid", 2), ("B", 3), ("R0", 0)])
def test_at_an_end_the_best_fit_is_worse_by_z_squared(name, index):
    fit = fit_curve(COMPUTE, noisy(6), n=N)
    for end in fit.intervals[name]:
        at = np.log(end) if name in ("B", "C_mid") else end
        lower, upper = fit.box[0].copy(), fit.box[1].copy()
        lower[index] = upper[index] = at
        _, total = solve(problem_of(fit.runs, fit.noise.error, (lower, upper)), fit.theta[None])
        assert total[0] - fit.sum_of_squares == pytest.approx(1.6449**2, rel=0.03)


def test_an_open_end_is_the_bound():
    compute = np.concatenate([[0.0], np.linspace(800, 2000, 30)])
    fit = fit_curve(compute, noisy(1, compute), n=N)
    assert fit.intervals["A"][1] > 0.95
    assert not fit.identified
