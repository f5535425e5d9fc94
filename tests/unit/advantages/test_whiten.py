import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.advantages.whiten import whiten
from headrace.errors import RecordError


def test_one_to_four_with_both_counts():
    # Deviations -1.5 -.5 .5 1.5, squares 5: variance 5/3 (ddof 1) or 5/4.
    deviation = np.array([-1.5, -0.5, 0.5, 1.5])
    assert whiten([1, 2, 3, 4], eps=0.0) == pytest.approx(deviation / (5 / 3) ** 0.5, rel=1e-15)
    assert whiten([1, 2, 3, 4], ddof=0, eps=0.0) == pytest.approx(deviation / 1.25**0.5, rel=1e-15)


def test_eps_lies_under_the_root():
    assert whiten([-1, 1], ddof=0, eps=3.0).tolist() == [-0.5, 0.5]


def test_advantages_of_the_two_tokens_that_count():
    # GAE gave 5.5 and 1.5: mean 3.5, standard deviation 2 root 2.
    assert whiten([5.5, 1.5]) == pytest.approx([0.5**0.5, -(0.5**0.5)], abs=1e-8)


@pytest.mark.parametrize("values", [[], [3.0], [0.7] * 6, [-2.0, -2.0]])
def test_nothing_to_scale_by_gives_exactly_zero(values):
    assert whiten(values).tolist() == [0.0] * len(values)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=40).filter(lambda v: len(set(v)) > 1), st.integers(1, 9))
def test_mean_zero_spread_one_whatever_the_shift_and_stretch(values, stretch):
    white = whiten(values, eps=0.0)
    assert white.mean() == pytest.approx(0.0, abs=1e-12)
    assert white.std(ddof=1) == pytest.approx(1.0)
    assert whiten([stretch * v + 7 for v in values], eps=0.0) == pytest.approx(white, abs=1e-12)


def test_refuses_a_matrix():
    with pytest.raises(RecordError, match="values"):
        whiten([[1, 2]])
