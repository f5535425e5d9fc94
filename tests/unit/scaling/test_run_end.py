import pytest

from headrace.scaling.run_end import forecast_end, planned_compute
from tests.unit.scaling.runs import curve_rows, eval_row

TRUTH = 0.59977  # .25 + .36 / (1 + (2542 / 16000)^1.92)


def test_the_cost_of_a_step_is_that_of_the_later_half():
    rows = [eval_row(step, 0.5, compute=cost) for step, cost in ((0, 0.0), (4, 90.0), (10, 100.0), (20, 180.0))]
    assert planned_compute(rows, 50, "device_s") == 180 + 30 * 8  # (180 - 100) / (20 - 10) a step
    assert planned_compute(rows, 50, "steps") == 50
    assert planned_compute(rows[:2], 50, "device_s") == 90 + 46 * 22.5
    assert planned_compute(rows[:1], 50, "device_s") is None
    assert planned_compute(rows, 20, "device_s") == 180


def test_four_tenths_of_a_run_say_where_it_ends():
    made = [forecast_end(curve_rows(40, seed=seed), 100) for seed in range(20)]
    assert all(one.identified and one.reasons == () for one in made)
    assert {(one.version, one.compute, one.target_step, one.num_points) for one in made} == {(40, 6400.0, 100, 41)}
    assert made[0].target_compute == pytest.approx(16_000)
    held = [one.interval[0] <= TRUTH <= one.interval[1] for one in made]
    assert 15 <= sum(held) <= 20  # 18 expected of a 90 % interval
    assert all(abs(one.value - TRUTH) < 0.02 for one in made)
    assert abs(made[0].A - 0.61) < 0.02
    assert made[0].interval_A[0] < made[0].A < made[0].interval_A[1]


def test_another_unit_of_compute():
    made = forecast_end(curve_rows(40), 100, compute="tokens_trained")
    assert (made.unit, made.compute) == ("tokens_trained", 400)
    assert made.target_compute == pytest.approx(1000)
    assert made.C_mid == pytest.approx(10 * 2542 / 160, rel=0.05)


def test_an_early_fit_keeps_its_estimates_and_says_nothing():
    made = forecast_end(curve_rows(12), 100)
    assert not made.identified
    assert made.reasons
    assert (made.value, made.interval) == (None, None)
    assert made.A is not None


def test_no_rise_and_too_few_points():
    flat = forecast_end([eval_row(step, 0.4, compute=step) for step in range(10)], 100)
    assert (flat.A, flat.interval_A, flat.identified) == (None, None, False)
    assert flat.reasons == ("all scores are 0.4: there is no rise to fit",)
    few = forecast_end([eval_row(step, 0.1 * step, compute=step) for step in range(4)], 100)
    assert few.reasons[0].startswith("the run: 4 points are too few")
    assert few.num_points == 4


def test_the_fit_at_the_end_is_no_forecast():
    made = forecast_end(curve_rows(100), 100)
    assert not made.is_forecast
    assert made.target_compute == made.compute == 16_000
    assert made.value == pytest.approx(TRUTH, abs=0.005)
