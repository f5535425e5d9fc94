import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import RecordError
from headrace.packing.rows import bin_rows, fill, plan_rows


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


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(60, 400))
def test_a_plan_holds_every_rollout_once_within_the_budget(lengths, budget):
    plan = plan_rows(lengths, budget)
    assert sorted(i for rows in plan for row in rows.members for i in row) == list(range(len(lengths)))
    for rows in plan:
        assert rows.size <= budget
        assert max(sum(lengths[i] for i in row) for row in rows.members) <= rows.width
    assert plan == plan_rows(lengths, budget)


@pytest.mark.parametrize("budget", [1024, 2048, 8192])
def test_lengths_of_short_completions_fill_nine_tenths(budget):
    rng = np.random.default_rng(0)
    for low, high in ((25, 50), (20, 75), (5, 300)):
        for _ in range(5):
            lengths = rng.integers(low, high, size=256).tolist()
            plan = plan_rows(lengths, budget)
            assert fill(lengths, plan) >= 0.9
            assert max(rows.width for rows in plan) <= 3 * high


def test_equal_lengths_make_full_rows():
    plan = plan_rows([40] * 10, 200)
    assert [(rows.width, len(rows.members)) for rows in plan] == [(40, 5), (40, 5)]
    assert fill([40] * 10, plan) == 1.0


def test_sorting_wins_where_packing_leaves_holes():
    # Two lengths that do not combine: one micro-batch of each is full, any common width is not.
    plan = plan_rows([30] * 6 + [20] * 9, 180)
    assert [(rows.width, len(rows.members)) for rows in plan] == [(30, 6), (20, 9)]


def test_packing_wins_where_lengths_spread():
    lengths = [60, 10, 10, 10, 10, 10, 10]
    plan = plan_rows(lengths, 120)
    assert [rows.width for rows in plan] == [60]
    assert fill(lengths, plan) == 1.0


def test_edges():
    assert plan_rows([], 100) == ()
    assert fill([], ()) == 1.0
    with pytest.raises(RecordError, match="micro-batch of 10"):
        plan_rows([11], 10)
