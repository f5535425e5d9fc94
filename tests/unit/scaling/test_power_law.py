import numpy as np
import pytest

from headrace.scaling.power_law import fit_power_law
from tests.unit.scaling.curves import COMPUTE, exact


def test_a_power_law_is_found_again():
    c = np.linspace(100, 2000, 40)
    law = fit_power_law(c, 0.7 - 3.0 / c**0.5, np.ones(40))
    assert law.A[0] == pytest.approx(0.7, abs=2e-3)
    assert law.p[0] == pytest.approx(0.5, abs=0.01)
    assert law.at(5000.0)[0] == pytest.approx(0.7 - 3.0 / 5000**0.5, abs=1e-3)


def test_on_half_a_sigmoid_it_promises_too_much():
    law = fit_power_law(COMPUTE, exact(), np.ones(len(COMPUTE)))
    assert law.A[0] > 0.7
    assert law.at(16000.0)[0] > exact(16000.0) + 0.02


def test_the_ceiling_is_a_pass_rate():
    c = np.linspace(100, 2000, 40)
    assert fit_power_law(c, 0.1 + 0.0004 * c, np.ones(40)).A[0] == 1.0
