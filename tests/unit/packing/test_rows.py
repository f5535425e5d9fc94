import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import RecordError
from headrace.packing.rows import bin_rows, choose_rows


def test_first_fit_decreasing_by_hand():
    # Sorted 7 6 5 4 3 2: 7 | 6 | 5 | 4 joins 6 | 3 joins 7 | 2 joins 5.
    assert bin_rows([3, 7, 5, 2, 6, 4], 10) == [[1, 0], [4, 5], [2, 3]]


def test_a_rollout_that_does_not_fit_is_refused():
    with pytest.raises(RecordError, match="a rollout of 11 tokens does not fit a row of 10"):
        bin_rows([11], 10)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(60, 200))
def test_every_rollout_lies_in_one_row_and_rows_do_not_overflow(lengths, width):
    rows = bin_rows(lengths, width)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    assert max(sum(lengths[i] for i in row) for row in rows) <= width
    assert rows == bin_rows(lengths, width)


def test_lengths_of_the_demo_fill_nine_tenths():
    rng = np.random.default_rng(0)
    for low, high in ((25, 50), (20, 75), (5, 300)):
        for _ in range(5):
            rows = choose_rows(rng.integers(low, high, size=256).tolist())
            assert rows.fill >= 0.9
            assert rows.width <= 3 * high


def test_equal_lengths_make_full_rows():
    rows = choose_rows([40] * 10)
    assert (rows.width, len(rows.members), rows.fill) == (40, 10, 1.0)


def test_width_is_bounded_by_the_budget_but_never_below_the_longest():
    assert choose_rows([60, 30, 35], max_width=70).width <= 70
    assert choose_rows([60], max_width=10).width == 60


def test_nothing_to_bin():
    assert choose_rows([]).members == ()
