import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.curation.lag import LAG_SCHEDULES, constant_lag, final_fraction_lag, linear_lag


def test_constant():
    assert [constant_lag(3)(s) for s in (0, 5, 10**9)] == [3, 3, 3]


def test_eight_becomes_four_in_the_last_fifth():
    bound = final_fraction_lag(8, 100)
    assert [bound(s) for s in (0, 79, 80, 99, 100)] == [8, 8, 4, 4, 4]


def test_half_of_an_odd_bound_is_rounded_down():
    assert final_fraction_lag(5, 10)(9) == 2
    assert final_fraction_lag(1, 10)(9) == 0
    assert final_fraction_lag(0, 10)(9) == 0


def test_the_end_may_be_given():
    bound = final_fraction_lag(8, 10, final_frac=0.5, end=1)
    assert [bound(s) for s in range(10)] == [8] * 5 + [1] * 5


def test_linear_in_whole_steps_never_above_the_line():
    assert [linear_lag(4, 5)(s) for s in range(7)] == [4, 3, 2, 1, 0, 0, 0]
    assert [linear_lag(8, 11, end=4)(s) for s in range(11)] == [8, 7, 7, 6, 6, 6, 5, 5, 4, 4, 4]
    assert linear_lag(3, 1)(0) == 3


def test_shapes_by_name():
    assert [LAG_SCHEDULES["linear"](4, 0, 5, 0.2)(s) for s in range(5)] == [4, 3, 2, 1, 0]
    assert [LAG_SCHEDULES["final"](4, 1, 5, 0.4)(s) for s in range(5)] == [4, 4, 4, 1, 1]


@given(
    st.integers(0, 12), st.integers(0, 12), st.integers(1, 60), st.floats(0, 1), st.sampled_from(["linear", "final"])
)
def test_a_bound_never_rises_and_stays_between_its_ends(start, end, total, final_frac, shape):
    start, end = max(start, end), min(start, end)
    bounds = [LAG_SCHEDULES[shape](start, end, total, final_frac)(s) for s in range(total + 5)]
    assert bounds == sorted(bounds, reverse=True)
    assert all(end <= b <= start for b in bounds)


def test_refusals():
    with pytest.raises(ValueError, match="below 0"):
        constant_lag(-1)
    with pytest.raises(ValueError, match="neither rise"):
        final_fraction_lag(4, 10, end=5)
    with pytest.raises(ValueError, match="neither rise"):
        linear_lag(4, 10, end=-1)
    with pytest.raises(ValueError, match="no step"):
        linear_lag(4, 0)
