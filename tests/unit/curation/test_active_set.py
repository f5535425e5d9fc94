"""Small sets walked by hand. The order of an epoch is the plain one unless a test says otherwise."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.curation.active_set import ActiveSet, seeded_order
from headrace.errors import DataError, RecordError


def plain(size):
    return lambda position: position % size


def draw(active, count):
    return [active.next_position() for _ in range(count)]


def test_an_untouched_set_is_the_source():
    assert draw(ActiveSet(3, plain(3)), 7) == [0, 1, 2, 3, 4, 5, 6]


def test_a_row_retired_now_is_passed_over_from_now_on():
    active = ActiveSet(4, plain(4), effective="now")
    assert draw(active, 1) == [0]
    active.retire(2)
    assert draw(active, 5) == [1, 3, 4, 5, 7]


def test_a_row_retired_for_the_next_epoch_finishes_this_one():
    active = ActiveSet(4, plain(4))
    draw(active, 1)
    active.retire(2)
    assert draw(active, 6) == [1, 2, 3, 4, 5, 7]
    assert (active.size, active.num_retired, active.num_vacant) == (3, 1, 1)


def test_reserve_rows_take_places_in_their_order():
    size, seed = 6, 5
    order = seeded_order(size, seed)
    start, first, second = set(order[:4]), order[4], order[5]
    active = ActiveSet(size, plain(size), reserve_frac=0.34, seed=seed, effective="now")
    assert {p % size for p in draw(active, 4)} == start
    gone = order[0]
    active.retire(gone)
    assert (active.size, active.num_reserve) == (4, 1)
    assert {p % size for p in draw(active, 4)} == start - {gone} | {first}
    active.retire(order[1])
    active.retire(order[2])
    assert (active.size, active.num_reserve, active.num_vacant, active.num_retired) == (3, 0, 1, 3)
    assert {p % size for p in draw(active, 3)} == {order[3], first, second}


def test_a_reserve_row_that_came_in_may_retire_too():
    order = seeded_order(4, 0)
    active = ActiveSet(4, plain(4), reserve_frac=0.5, effective="now")
    active.retire(order[0])
    active.retire(order[2])
    assert [active.holds(row) for row in order] == [False, True, False, True]
    active.retire(order[2])
    assert active.num_retired == 2


def test_a_row_outside_cannot_retire():
    order = seeded_order(4, 0)
    active = ActiveSet(4, plain(4), reserve_frac=0.5, effective="now")
    active.retire(order[3])
    assert (active.num_retired, active.num_reserve) == (0, 2)


def test_too_few_left_is_said_clearly():
    active = ActiveSet(3, plain(3), minimum=2, effective="now")
    active.retire(0)
    assert draw(active, 2) == [1, 2]
    active.retire(1)
    with pytest.raises(DataError, match="1 prompts are left to train on and a step needs 2"):
        active.next_position()


@given(
    st.integers(1, 12),
    st.floats(0, 0.9),
    st.integers(0, 2**64 - 1),
    st.sampled_from(["now", "next_epoch"]),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5)), max_size=10),
    st.integers(0, 10),
)
def test_every_epoch_is_each_row_of_the_set_once_and_a_checkpoint_changes_nothing(
    size, frac, seed, effective, events, cut
):
    def fresh():
        return ActiveSet(size, plain(size), reserve_frac=frac, seed=seed, effective=effective)

    whole, resumed = fresh(), fresh()
    for number, (row, count) in enumerate(events):
        for active in (whole, resumed):
            if active.size > 1:
                active.retire(row % size)
        if number == cut:
            state = json.loads(json.dumps(resumed.to_dict()))
            resumed = fresh()
            resumed.load(state)
        if whole.size - len(whole.to_dict()["leaving"]) < 1:
            return
        assert draw(whole, count) == draw(resumed, count)
    assert whole.to_dict() == resumed.to_dict()
    assert whole.size == size - int(size * frac) - whole.num_vacant
    seen = draw(whole, 3 * size)
    positions = range(-(-seen[0] // size) * size + size, -(-seen[0] // size) * size + 2 * size)
    held = [p for p in positions if whole.holds(p % size)]
    if seen[-1] >= positions.stop:
        assert [p for p in seen if p in positions] == held


@given(st.integers(1, 200), st.integers(0, 2**64 - 1))
def test_the_order_is_a_permutation(size, seed):
    assert sorted(seeded_order(size, seed)) == list(range(size))


def test_seeds_give_unrelated_orders():
    assert seeded_order(50, 1) != seeded_order(50, 2)


def test_a_checkpoint_of_another_source_is_refused():
    state = ActiveSet(3, plain(3)).to_dict()
    with pytest.raises(RecordError, match="num_rows 3, this run has 4"):
        ActiveSet(4, plain(4)).load(state)
    with pytest.raises(RecordError, match="num_reserve 0, this run has 1"):
        ActiveSet(3, plain(3), reserve_frac=0.5).load(state)


@pytest.mark.parametrize(("rows", "frac"), [(0, 0.0), (3, 1.0), (3, -0.1)])
def test_refusals(rows, frac):
    with pytest.raises(ValueError, match=r"no prompt|reserve_frac"):
        ActiveSet(rows, plain(3), reserve_frac=frac)
