"""Coverage counted by hand. What came: .62 with an error of .005, so 1.6449 x .005 = .008224 at 90 %."""

import pytest

from headrace.errors import DataError
from headrace.scaling.backtest import Backtest, judge, remake
from headrace.scaling.made import MadeForecast
from headrace.scaling.run_end import forecast_end
from tests.unit.scaling.runs import curve_rows, eval_row

CAME = eval_row(60, 0.62, compute=600.0, n=1000, spread=0.025)  # sqrt(.025 / 1000) = .005


def said(version, value, half=0.01, **changes):
    ends = None if value is None else (value - half, value + half)
    fields = {"target_step": 60, "target_compute": 590.0, "num_points": 8, "level": 0.9, "unit": "device_s"}
    fields |= {"version": version, "compute": 10.0 * version, "value": value, "interval": ends} | changes
    return MadeForecast(**fields, identified=value is not None, reasons=() if value is not None else ("why",))


def test_the_evaluations_own_error_widens_the_interval():
    outside, inside = judge([said(20, 0.600), said(30, 0.610)], [CAME])
    assert (outside.came, outside.error) == (0.62, pytest.approx(0.005))
    # sqrt(.01^2 + .008224^2) = .012948
    assert outside.allowed == pytest.approx((0.587052, 0.612948), abs=1e-6)
    assert (outside.inside, inside.inside) == (False, True)
    assert outside.miss == pytest.approx(-0.02)


def test_coverage():
    found = Backtest("run", judge([said(20, 0.6), said(30, None), said(40, 0.61), said(50, 0.63)], [CAME]), False)
    assert [test.inside for test in found.tests] == [False, None, True, True]
    assert (len(found.said), found.num_inside, found.coverage) == (3, 2, pytest.approx(2 / 3))
    assert found.mean_miss == pytest.approx(0.04 / 3)
    row = found.to_json()
    assert (row["num_said"], row["num_inside"], row["coverage"]) == (3, 2, pytest.approx(2 / 3))
    assert [one["inside"] for one in row["forecasts"]] == [False, None, True, True]


def test_nothing_said_is_no_coverage():
    found = Backtest("run", judge([said(30, None)], [CAME]), False)
    assert (found.coverage, found.mean_miss, found.num_inside) == (None, None, 0)


def test_what_cannot_be_tested_is_left_out():
    unknown_end = said(20, 0.6, target_step=80)
    at_the_end, too_early = said(60, 0.62), said(5, None, num_points=5)
    assert judge([unknown_end, at_the_end, too_early], [CAME]) == ()


def test_remade_forecasts_know_nothing_of_later_evaluations():
    rows = curve_rows(60)[::4]  # steps 0, 4, ..., 60
    made = remake(rows)
    assert [one.version for one in made] == list(range(20, 60, 4))  # the sixth evaluation is that of step 20
    assert {one.target_step for one in made} == {60}
    assert made[-1] == forecast_end(rows[:-1], 60)
    tampered = [*rows[:-1], rows[-1] | {"mean_at_n": 0.1}]
    assert remake(tampered) == made
    tests = judge(made, rows)
    assert len(tests) == len(made)
    assert all(test.inside is not False for test in tests)


def test_too_few_to_remake():
    with pytest.raises(DataError, match="6 evaluations are too few"):
        remake(curve_rows(5))
