import math

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.scaling import fit_curve
from headrace.scaling.forecast import against_budget, against_target, forecast, needed_compute
from tests.unit.scaling.curves import COMPUTE, TRUE, N, exact, noisy

SHORT = np.concatenate([[0.0], np.linspace(800, 2542, 30)])


@pytest.fixture(scope="module")
def fit():
    return fit_curve(COMPUTE, exact(), n=N)


def test_value_and_interval(fit):
    said = forecast(fit, 16000)
    assert said.value == pytest.approx(0.59977, abs=1e-5)
    assert said.interval[0] < said.value < said.interval[1]
    assert 0.005 < said.interval[1] - said.interval[0] < 0.02
    assert said.beyond_data
    assert forecast(fit, 0).value == pytest.approx(0.25, abs=1e-5)


def test_the_interval_of_a_far_forecast_is_that_of_the_ceiling(fit):
    assert forecast(fit, 1e12).interval == pytest.approx(fit.intervals["A"], abs=2e-4)


def test_forecasts_hold_the_truth_as_often_as_they_say():
    true = exact(16000.0)
    held = []
    for seed in range(80):
        low, high = forecast(fit_curve(COMPUTE, noisy(seed), n=N, draws=20), 16000).interval
        held.append(low <= true <= high)
    assert 0.81 < np.mean(held) < 0.98


def test_a_curve_that_is_not_identified_says_nothing_beyond_its_data():
    fit = fit_curve(SHORT, noisy(0, SHORT), n=N)
    said = forecast(fit, 16000)
    assert said.refused
    assert said.reasons == fit.reasons
    assert said.to_json()["value"] is None
    assert not forecast(fit, 2000).refused
    assert against_target(fit, 0.5, 16000).decision == "unknown"
    assert math.isnan(against_budget(fit, 16000).probability)


def test_targets(fit):
    assert against_target(fit, 0.59, 16000).decision == "continue"
    assert against_target(fit, 0.65, 16000).decision == "stop"
    assert "reached" in against_target(fit, 0.5, 16000).why
    middle, (low, high) = needed_compute(fit, 0.59)
    true = TRUE["C_mid"] * (0.34 / 0.02) ** (1 / 1.92)
    assert middle == pytest.approx(true, rel=0.02)
    assert low < true < high
    assert needed_compute(fit, 0.7)[0] == math.inf


def test_budgets(fit):
    """From 8,000 to 16,000 the curve gains .0256; from 50,000 to 100,000 nothing that counts."""
    assert against_budget(fit, 16000, margin=0.02).decision == "continue"
    assert against_budget(fit, 16000, margin=0.05).decision == "stop"
    assert "spent" in against_budget(fit, 8000).why


def test_wrong_questions(fit):
    with pytest.raises(ConfigError):
        forecast(fit, -1)
    with pytest.raises(ConfigError):
        forecast(fit, math.nan)
    with pytest.raises(ConfigError):
        against_target(fit, 58, 16000)
