import json
import math

import numpy as np
import pytest

from headrace.errors import DataError
from headrace.scaling import checked_points, fit_curve, fit_runs
from headrace.scaling.compare import compare, compare_all, refit_b
from tests.unit.scaling.curves import COMPUTE, N, exact, noisy

NAMES = ("x", "y")


def test_a_higher_ceiling_is_named():
    found = compare(fit_curve(COMPUTE, exact(), n=N), fit_curve(COMPUTE, exact(A=0.55), n=N), names=NAMES)
    assert found.A_difference == pytest.approx(0.06, abs=1e-5)
    assert (found.A_verdict, found.B_verdict) == ("x", "ceilings differ")
    assert found.ceiling_probability > 0.99
    assert found.common_ceiling == pytest.approx(0.58, abs=1e-5)


def test_within_the_margin_nothing_differs():
    first, second = fit_curve(COMPUTE, exact(), n=N), fit_curve(COMPUTE, exact(A=0.595), n=N)
    assert compare(first, second, names=NAMES).A_verdict == "no difference"
    assert compare(first, second, names=NAMES, margin=0.005).A_verdict == "x"


def test_efficiency_at_the_common_ceiling():
    first, second = fit_curve(COMPUTE, exact(), n=N), fit_curve(COMPUTE, exact(B=1.6), n=N)
    found = compare(first, second, names=NAMES)
    assert found.refit_b == pytest.approx((1.92, 1.6), abs=1e-3)
    assert found.B_verdict == "x"
    value, (low, high) = refit_b(first, 0.61)
    full = np.diff(first.intervals["B"])[0]
    assert value == pytest.approx(1.92, abs=1e-4)
    assert high - low < 0.7 * full  # holding the ceiling takes most of the doubt


def test_the_crossing_is_where_the_true_curves_meet():
    """A .61, B 1.92, C_mid 2542 against A .55, B 1.92, C_mid 1800: with u = C^1.92, .36 (u + 1800^1.92) =
    .30 (u + 2542^1.92), so u = 5 * 2542^1.92 - 6 * 1800^1.92."""
    first, second = fit_curve(COMPUTE, exact(), n=N), fit_curve(COMPUTE, exact(A=0.55, C_mid=1800), n=N)
    found = compare(first, second, names=NAMES)
    true = (5 * 2542**1.92 - 6 * 1800**1.92) ** (1 / 1.92)
    assert found.crossings == pytest.approx([true], rel=1e-3)
    before = compare(first, second, names=NAMES, compute=2000)
    after = compare(first, second, names=NAMES, compute=16000)
    assert before.probability_first_better < 0.01
    assert after.probability_first_better > 0.99


def test_equal_recipes_are_a_coin_toss_on_average():
    chances = [
        compare(
            fit_curve(COMPUTE, noisy(2 * k), n=N, draws=100),
            fit_curve(COMPUTE, noisy(2 * k + 1), n=N, draws=100),
            names=NAMES,
        ).probability_first_better
        for k in range(30)
    ]
    assert 0.3 < np.mean(chances) < 0.7
    assert np.std(chances) > 0.15  # and says little else: near uniform


def test_swapping_the_two_turns_the_signs():
    first, second = fit_curve(COMPUTE, noisy(0), n=N), fit_curve(COMPUTE, noisy(1, A=0.58), n=N)
    one, other = compare(first, second, names=NAMES), compare(second, first, names=NAMES)
    assert one.A_difference == -other.A_difference
    assert one.probability_first_better == pytest.approx(1 - other.probability_first_better, abs=0.03)


def test_a_refused_curve_is_compared_within_the_data_only():
    short = np.concatenate([[0.0], np.linspace(800, 2542, 30)])
    first, second = fit_curve(short, noisy(0, short), n=N), fit_curve(COMPUTE, noisy(1, A=0.5), n=N)
    found = compare(first, second, names=NAMES)
    assert math.isnan(found.A_difference)
    assert (found.A_verdict, found.B_verdict) == ("unknown", "unknown")
    assert found.compute == 2542
    assert found.probability_first_better > 0.9
    beyond = compare(first, second, names=NAMES, compute=16000)
    assert math.isnan(beyond.probability_first_better)
    assert json.loads(json.dumps(beyond.to_json(), allow_nan=False))["A_difference"] is None
    assert beyond.reasons[0].startswith("x: ")


def test_seeds_decide_what_counts():
    """Ceilings .625 and .60 of single runs differ; three seeds each that spread by .02 do not."""

    def recipe(ceiling, spread, first):
        return fit_runs(
            [
                checked_points(COMPUTE, noisy(first + k, A=ceiling + spread * (k - 1)), n=N, name=f"s{k}")
                for k in range(3)
            ]
        )

    assert compare(recipe(0.625, 0.0, 0), recipe(0.6, 0.0, 3), names=NAMES).A_verdict == "x"
    wide = compare(recipe(0.625, 0.012, 0), recipe(0.6, 0.012, 3), names=NAMES)
    assert wide.A_verdict == "no difference"


def test_units_must_agree():
    other = fit_curve(COMPUTE, noisy(0), n=N, unit="tokens")
    with pytest.raises(DataError, match="different units"):
        compare(fit_curve(COMPUTE, noisy(1), n=N, unit="steps"), other, names=NAMES)
    with pytest.raises(DataError, match="at least two"):
        compare_all([other], ["x"])
