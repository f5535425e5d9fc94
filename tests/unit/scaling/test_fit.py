import json
import math

import numpy as np
import pytest

from headrace.errors import ConfigError, DataError
from headrace.scaling import Options, checked_points, fit_curve, fit_runs
from headrace.scaling.grid import ranges
from tests.unit.scaling.curves import COMPUTE, TRUE, N, exact, noisy


def test_exact_data_give_the_curve_back():
    fit = fit_curve(COMPUTE, exact(), n=N)
    for name, value in TRUE.items():
        assert getattr(fit, name) == pytest.approx(value, rel=1e-5)
        low, high = fit.intervals[name]
        assert low < value < high
    assert fit.identified
    assert fit.reasons == ()
    assert fit.at(16000) == pytest.approx(0.59977, abs=1e-5)


def test_the_unit_of_compute_does_not_matter():
    hours, flops = fit_curve(COMPUTE, noisy(), n=N), fit_curve(COMPUTE * 1e21, noisy(), n=N)
    assert flops.C_mid == pytest.approx(hours.C_mid * 1e21, rel=1e-6)
    assert flops.intervals["A"] == pytest.approx(hours.intervals["A"], abs=1e-5)


def test_order_of_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(len(COMPUTE))
    mixed, sorted_ = fit_curve(COMPUTE[order], noisy()[order], n=N), fit_curve(COMPUTE, noisy(), n=N)
    assert pytest.approx(sorted_.A, abs=1e-9) == mixed.A


def test_a_noisy_start_is_one_point_among_others():
    """An evaluation before training that lies 2 errors too high moves R0 by part of that, and A hardly at all."""
    y = noisy(1)
    high = y.copy()
    high[0] += 0.007
    usual, moved = fit_curve(COMPUTE, y, n=N), fit_curve(COMPUTE, high, n=N)
    assert 0.002 < moved.R0 - usual.R0 < 0.007
    assert abs(moved.A - usual.A) < 0.004


@pytest.mark.parametrize("interval", ["profile", "bootstrap"])
def test_intervals_hold_the_truth_as_often_as_they_say(interval):
    held = []
    for seed in range(60):
        fit = fit_curve(COMPUTE, noisy(seed), n=N, interval=interval, draws=200)
        held += [fit.intervals[name][0] <= value <= fit.intervals[name][1] for name, value in TRUE.items()]
    assert 0.83 < np.mean(held) < 0.96  # 240 intervals at 90 %, four of a fit together


def test_both_interval_methods_agree_on_a_good_curve():
    profile, drawn = (fit_curve(COMPUTE, noisy(2), n=N, interval=name) for name in ("profile", "bootstrap"))
    for name in ("A", "B", "R0"):
        width = np.diff(profile.intervals[name])[0]
        assert profile.intervals[name] == pytest.approx(drawn.intervals[name], abs=0.15 * width)


def test_the_same_seed_gives_the_same_draws():
    first, second = (fit_curve(COMPUTE, noisy(), n=N, draws=50) for _ in range(2))
    assert (first.draws == second.draws).all()


def test_scatter_larger_than_the_stated_error_widens_the_intervals():
    y = np.clip(noisy(3) + np.random.default_rng(0).normal(0, 0.012, len(COMPUTE)), 0, 1)
    stated, unstated = fit_curve(COMPUTE, y, n=N), fit_curve(COMPUTE, y)
    assert stated.noise.excess > 2
    assert any("times the stated errors" in note for note in stated.notes)
    assert np.diff(stated.intervals["A"]) == pytest.approx(np.diff(unstated.intervals["A"]), rel=0.2)


def test_errors_of_points_weigh_them():
    y, error = exact(), np.full(len(COMPUTE), 0.004)
    y[30], error[30] = 0.2, 10.0
    assert pytest.approx(0.61, abs=1e-4) == fit_curve(COMPUTE, y, error=error).A


def test_a_held_start():
    fit = fit_curve(COMPUTE, noisy(), n=N, R0=0.25)
    assert fit.R0 == 0.25
    assert fit.intervals["R0"] == (0.25, 0.25)


def test_the_papers_grid_finds_the_papers_cell():
    """Table 1's C_mid 2542 is int(linspace(100, 4000, 100)[62])."""
    fit = fit_curve(COMPUTE, exact(), method="grid", R0=0.25, grid=ranges(0.45, 0.8, 100, 4000))
    assert pytest.approx(0.61) == fit.A
    assert int(fit.C_mid) == 2542
    assert pytest.approx(1.92, abs=0.002) == fit.B


def test_the_grid_refuses_at_its_edge():
    fit = fit_curve(COMPUTE, exact(), method="grid", R0=0.25, grid=ranges(0.45, 0.6, 100, 4000))
    assert not fit.identified
    assert any("A is at the bound 0.6" in reason for reason in fit.reasons)


def test_the_grid_needs_a_start():
    with pytest.raises(DataError, match="needs R0"):
        fit_curve(COMPUTE[1:], exact()[1:], method="grid")


def test_json_has_the_promised_fields():
    said = json.loads(json.dumps(fit_curve(COMPUTE, noisy(), n=N).to_json(), allow_nan=False))
    promised = ("A", "B", "C_mid", "R0", "interval_A", "interval_B", "interval_C_mid", "identified", "reasons")
    assert set(promised) <= set(said)
    assert said["identified"] is True
    assert said["interval_A"][0] < said["A"] < said["interval_A"][1]


def test_seeds_that_differ_widen_the_intervals_and_equal_ones_do_not():
    def runs(spread):
        return [checked_points(COMPUTE, noisy(k, A=0.61 + spread * (k - 1)), n=N, name=f"s{k}") for k in range(3)]

    same, different = fit_runs(runs(0.0)), fit_runs(runs(0.012))
    assert np.diff(same.intervals["A"])[0] < 0.014
    assert np.diff(different.intervals["A"])[0] > 0.025
    assert different.intervals["A"][0] < 0.61 < different.intervals["A"][1]
    assert same.noise.excess == different.noise.excess == 1.0


@pytest.mark.parametrize("options", [{"method": "magic"}, {"interval": "t"}, {"level": 1.0}, {"draws": 3}, {"R0": 1.5}])
def test_wrong_options(options):
    with pytest.raises(ConfigError):
        Options(**options)


def test_without_a_rise_there_are_no_numbers():
    for y in (np.full(51, 0.3), np.linspace(0.6, 0.3, 51), np.random.default_rng(0).binomial(1000, 0.3, 51) / 1000):
        fit = fit_curve(COMPUTE, y)
        assert not fit.identified
        assert len(fit.reasons) == 1
        assert all(math.isnan(getattr(fit, name)) for name in TRUE)
        said = fit.to_json()
        assert said["A"] is None
        assert said["interval_A"] == [None, None]


def test_runs_with_and_without_counts_are_weighed_alike():
    counted = checked_points(COMPUTE, noisy(0), n=N, name="a")
    plain = checked_points(COMPUTE, noisy(1), name="b")
    fit = fit_runs([counted, plain])
    assert abs(fit.A - 0.61) < 0.015
    assert any("no errors and no counts" in note for note in fit.notes)


def test_intervals_of_three_seeds_hold_the_mean_of_all_seeds():
    """Ceilings of single runs spread by .0075, twice the error of one fit: the pooled fit's own would not do."""
    held = []
    for i in range(40):
        ceilings = 0.61 + 0.0075 * np.random.default_rng(i).standard_normal(3)
        runs = [checked_points(COMPUTE, noisy(3 * i + k, A=a), n=N, name=f"s{k}") for k, a in enumerate(ceilings)]
        low, high = fit_runs(runs, Options(draws=300)).intervals["A"]
        held.append(low <= 0.61 <= high)
    assert np.mean(held) >= 0.8
