import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import RecordError
from headrace.packing.rows import Pieces, Rows, bin_rows, fill, plan_rows


def apart(lengths):
    """Rollouts that share nothing."""
    return Pieces(lengths, range(len(lengths)), [0] * len(lengths))


def grouped(groups):
    """``groups``: (tokens of the prompt, [tokens of each completion])."""
    own = [n for _, completions in groups for n in completions]
    group = [g for g, (_, completions) in enumerate(groups) for _ in completions]
    return Pieces(own, group, [prompt for prompt, _ in groups])


def taken(pieces, row):
    """Tokens of a row, by the definition: every completion, and every group's prompt once."""
    groups = {pieces.group[i] for i in row}
    return sum(pieces.own[i] for i in row) + sum(pieces.prompt[g] for g in groups)


GROUPS = st.lists(st.tuples(st.integers(0, 20), st.lists(st.integers(1, 40), min_size=1, max_size=6)), max_size=20)


def test_best_fit_decreasing_by_hand():
    # Sorted 7 6 5 4 3 2: 7 | 6 | 5 | 4 joins 6, the fullest with room | 3 joins 7 | 2 joins 5.
    assert bin_rows(apart([3, 7, 5, 2, 6, 4]), 10) == [[1, 0], [4, 5], [2, 3]]
    # 6 5 4 3: 6 | 5 | 4 fills the row of the 6 | 3 joins the row of the 5.
    assert bin_rows(apart([5, 6, 3, 4]), 10) == [[1, 3], [0, 2]]


def test_a_group_stays_together_by_hand():
    # Group 1 first (13 tokens, group 0 has 12): 3 + 6 leaves 1 | 5 takes a row and the prompt anew, leaves 2 | 2 joins
    # it and needs no prompt. Group 0: 2 + 7 leaves 1 | 5 takes a row and the prompt anew.
    pieces = grouped([(2, [7, 5]), (3, [6, 5, 2])])
    assert bin_rows(pieces, 10) == [[2], [3, 4], [0], [1]]
    assert [taken(pieces, row) for row in ([2], [3, 4], [0], [1])] == [9, 10, 9, 7]


def test_a_rollout_that_does_not_fit_is_refused():
    with pytest.raises(RecordError, match="a rollout of 11 tokens does not fit a row of 10"):
        bin_rows(apart([11]), 10)
    with pytest.raises(RecordError, match="a rollout of 11 tokens does not fit a row of 10"):
        bin_rows(grouped([(4, [7, 1])]), 10)


@given(GROUPS, st.integers(60, 200))
def test_every_rollout_lies_in_one_row_and_rows_do_not_overflow(groups, width):
    pieces = grouped(groups)
    rows = bin_rows(pieces, width)
    assert sorted(i for row in rows for i in row) == list(range(len(pieces.own)))
    assert max((taken(pieces, row) for row in rows), default=0) <= width
    assert rows == bin_rows(pieces, width)


@given(GROUPS, st.integers(60, 400))
def test_a_plan_holds_every_rollout_once_within_the_budget(groups, budget):
    pieces = grouped(groups)
    plan = plan_rows(pieces, budget)
    assert sorted(i for rows in plan for row in rows.members for i in row) == list(range(len(pieces.own)))
    for rows in plan:
        assert rows.size <= budget
        assert max(taken(pieces, row) for row in rows.members) <= rows.width
        assert rows.num_real == sum(taken(pieces, row) for row in rows.members)
        for row in rows.members:  # a group's rollouts stand side by side, behind one block
            seen = [pieces.group[i] for i in row]
            assert seen == sorted(seen)
    assert plan == plan_rows(pieces, budget)


def cost(plan: tuple[Rows, ...]) -> float:
    return sum(rows.size * (1 + rows.width / 1000) for rows in plan)


@given(GROUPS, st.integers(60, 400))
def test_sharing_never_costs_more_than_the_best_layout_that_shares_nothing(groups, budget):
    pieces = grouped(groups)
    shared, alone = plan_rows(pieces, budget), plan_rows(pieces.apart(), budget)
    if fill(alone) >= 0.9 or fill(shared) < 0.9:
        assert cost(shared) <= cost(alone) * (1 + 1e-12)


def test_a_demo_like_step_loses_the_prompts_and_keeps_its_fill():
    rng = np.random.default_rng(0)
    pieces = grouped([(12, rng.integers(10, 45, size=8).tolist()) for _ in range(32)])
    plan, alone = plan_rows(pieces, 8192), plan_rows(pieces.apart(), 8192)
    assert fill(plan) >= 0.9
    own, prompts = sum(pieces.own), 12 * 256
    assert sum(rows.num_real for rows in alone) == own + prompts
    assert sum(rows.num_real for rows in plan) <= own + prompts / 2  # two rollouts a block at least
    assert cost(plan) < 0.9 * cost(alone)


@pytest.mark.parametrize("budget", [1024, 2048, 8192])
def test_lengths_of_short_completions_fill_nine_tenths(budget):
    rng = np.random.default_rng(0)
    for low, high in ((25, 50), (20, 75), (5, 300)):
        for prompt in (0, 12):
            for _ in range(5):
                groups = [(prompt, rng.integers(low, high, size=8).tolist()) for _ in range(32)]
                plan = plan_rows(grouped(groups), budget)
                assert fill(plan) >= 0.9
                assert max(rows.width for rows in plan) <= 3 * (high + prompt)


def test_equal_lengths_make_full_rows():
    plan = plan_rows(apart([40] * 10), 200)
    assert [(rows.width, len(rows.members)) for rows in plan] == [(40, 5), (40, 5)]
    assert fill(plan) == 1.0


def test_sorting_wins_where_packing_leaves_holes():
    # Two lengths that do not combine: one micro-batch of each is full, any common width is not.
    plan = plan_rows(apart([30] * 6 + [20] * 9), 180)
    assert [(rows.width, len(rows.members)) for rows in plan] == [(30, 6), (20, 9)]


def test_packing_wins_where_lengths_spread():
    plan = plan_rows(apart([60, 10, 10, 10, 10, 10, 10]), 120)
    assert [rows.width for rows in plan] == [60]
    assert fill(plan) == 1.0


def test_a_long_prompt_is_worth_a_wide_row():
    # Two answers of 10 to a prompt of 40: apart 2 x 50 tokens, at width 1.25 x 50 = 62 one row of 60.
    plan = plan_rows(grouped([(40, [10, 10])]), 200)
    assert plan == (Rows(width=62, members=((0, 1),), num_real=60),)


def test_edges():
    assert plan_rows(apart([]), 100) == ()
    assert fill(()) == 1.0
    with pytest.raises(RecordError, match="micro-batch of 10"):
        plan_rows(apart([11]), 10)
