import numpy as np
import pytest

from headrace.scaling import checked_points
from headrace.scaling.noise import (
    binomial_error,
    judge,
    local_error,
    within_prompt_error,
    within_prompt_error_from_pass_at_2,
)
from headrace.scaling.readers.run_log import evaluation_error


def test_binomial():
    assert binomial_error(0.5, 100) == pytest.approx(0.05)
    assert binomial_error(0.0, 1000) > 0


def test_within_prompts_worked():
    """Two prompts, four samples: 2 of 4 gives p (1 - p) / 3 = 1/12, 4 of 4 gives 0; sqrt(1/12) / 2 = .1443."""
    assert within_prompt_error([2, 4], [4, 4]) == pytest.approx(np.sqrt(1 / 12) / 2)


def test_pass_at_2_says_the_same():
    """2 of 4: pass@1 .5, pass@2 1 - 1/6 = .8333; 4 of 4: 1 and 1. Means .75 and .91667; sqrt(.16667 / 8) = .1443."""
    assert within_prompt_error_from_pass_at_2(0.75, 11 / 12, 8) == pytest.approx(within_prompt_error([2, 4], [4, 4]))


def test_prompts_of_one_kind_make_the_two_errors_equal():
    rng = np.random.default_rng(0)
    passes = rng.binomial(16, 0.3, size=2000)
    assert within_prompt_error(passes, np.full(2000, 16)) == pytest.approx(binomial_error(0.3, 32_000), rel=0.03)


def test_an_evaluation_line():
    line = {"mean_at_n": 0.75, "pass_at_k": {"1": 0.75, "2": 11 / 12, "4": 1.0}, "num_completions": 8}
    assert evaluation_error(line) == pytest.approx(0.14434, abs=1e-5)
    single = {"mean_at_n": 0.5, "pass_at_k": {"1": 0.5}, "num_completions": 100, "unjudged_frac": 0.0}
    assert evaluation_error(single) == pytest.approx(0.05)


def test_stated_errors_are_believed_until_chance_is_out_of_the_question():
    error = np.full(54, 0.01)
    believed = judge(error, True, 60.0, 4, 0.9)  # chi-squared 60 on 50: p = .16
    assert (believed.excess, believed.z) == (1.0, pytest.approx(1.6449, abs=1e-4))
    scaled = judge(error, True, 200.0, 4, 0.9)
    assert scaled.excess == pytest.approx(2.0)
    assert scaled.error == pytest.approx(0.02)
    assert scaled.z == pytest.approx(1.6759, abs=1e-4)  # Student's t with 50 degrees of freedom


def test_local_error_sees_noise_and_not_the_curve():
    c = np.arange(1, 400.0)
    smooth = checked_points(c, 0.5 * c / (c + 100))
    assert local_error([smooth]) < 1e-4
    rough = checked_points(c, np.clip(smooth.score + np.random.default_rng(0).normal(0, 0.01, len(c)), 0, 1))
    assert local_error([rough]) == pytest.approx(0.01, rel=0.15)
