import numpy as np
import pytest

from headrace.scaling.curve import compute_to_reach, sigmoid, slope

TRUE = {"A": 0.61, "B": 1.92, "C_mid": 2542.0, "R0": 0.25}


def test_worked_values_of_the_first_row_of_the_papers_table():
    found = sigmoid([1500, 2542, 8000, 16000, 1e5], **TRUE)
    assert found == pytest.approx([0.34592, 0.43, 0.57413, 0.59977, 0.60969], abs=5e-6)


def test_the_ends_are_exact():
    assert sigmoid(0, **TRUE) == 0.25
    assert sigmoid(1e30, **TRUE) == pytest.approx(0.61, abs=1e-15)


def test_slope_at_the_middle_and_against_differences():
    assert slope(2542.0, **TRUE) == pytest.approx(0.36 * 1.92 / (4 * 2542))
    step = (sigmoid(4000.5, **TRUE) - sigmoid(3999.5, **TRUE)) / 1.0
    assert slope(4000.0, **TRUE) == pytest.approx(step, rel=1e-6)


def test_inverse():
    assert compute_to_reach(0.43, **TRUE) == pytest.approx(2542)
    assert sigmoid(compute_to_reach(0.57, **TRUE), **TRUE) == pytest.approx(0.57)
    assert compute_to_reach(0.25, **TRUE) == 0
    assert compute_to_reach(0.61, **TRUE) == np.inf
