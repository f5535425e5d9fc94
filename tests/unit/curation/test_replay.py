"""Uses counted by hand; lag of a group is that of its oldest token."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.curation.lag import constant_lag
from headrace.curation.replay import ReplayStore


def admissions(groups):
    return [g.admission for g in groups]


def test_one_use_keeps_nothing(make_group):
    store = ReplayStore(1)
    store.trained([make_group([0.0, 1.0])])
    assert len(store) == 0
    assert store.take(9, step=0, max_lag=constant_lag(9)) == []


def test_three_uses_are_two_more(make_group):
    store, bound = ReplayStore(3), constant_lag(9)
    store.trained([make_group([0.0, 1.0], admission=5)])
    for step in (1, 2):
        again = store.take(1, step=step, max_lag=bound)
        assert admissions(again) == [5]
        assert len(store) == 0
        store.trained(again)
    assert store.take(1, step=3, max_lag=bound) == []
    assert store.num_expired == 0


def test_who_expires_first_goes_first(make_group):
    store = ReplayStore(2)
    store.trained([make_group([0.0, 1.0], admission=a, version=v) for a, v in [(0, 3), (1, 2), (2, 2), (3, 4)]])
    assert admissions(store.take(3, step=4, max_lag=constant_lag(2))) == [1, 2, 0]
    assert len(store) == 1


def test_no_token_above_the_bound(make_group):
    store = ReplayStore(2)
    store.trained([make_group([0.0, 1.0], admission=a, version=v) for a, v in [(0, 3), (1, 4)]])
    assert admissions(store.take(9, step=6, max_lag=constant_lag(2))) == [1]
    assert store.num_expired == 1


def test_the_bound_in_force_at_the_step_decides(make_group):
    store = ReplayStore(2)
    store.trained([make_group([0.0, 1.0], version=0)])
    assert store.take(1, step=3, max_lag=lambda step: 4 if step < 3 else 2) == []


def test_groups_that_did_not_train_after_all_lose_no_use(make_group):
    store, bound = ReplayStore(2), constant_lag(9)
    store.trained([make_group([0.0, 1.0])])
    store.give_back(store.take(1, step=1, max_lag=bound))
    again = store.take(1, step=1, max_lag=bound)
    assert len(again) == 1
    store.trained(again)
    assert len(store) == 0


def test_groups_that_teach_nothing_are_not_kept(make_group):
    store = ReplayStore(5)
    store.trained([dataclasses.replace(make_group([1.0, 1.0]), signal=False), make_group([1.0, 0.0], lengths=[0, 0])])
    assert len(store) == 0


def test_a_checkpoint_keeps_uses_of_groups_in_store_and_on_loan(make_group):
    store, bound = ReplayStore(3), constant_lag(9)
    store.trained([make_group([0.0, 1.0], admission=a) for a in (0, 1)])
    (out,) = store.take(1, step=1, max_lag=bound)
    resumed = ReplayStore(3)
    resumed.load(store.entries(), store.lent())
    for each in (store, resumed):
        each.trained([out])
        assert [(e.group.admission, e.uses) for e in each.entries()] == [(0, 2), (1, 1)]
    stricter = ReplayStore(2)
    stricter.load(store.entries())
    assert [e.group.admission for e in stricter.entries()] == [1]


@given(st.integers(1, 4), st.integers(0, 3), st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_never_more_than_max_uses_and_never_above_the_bound(make_group, max_uses, max_lag, wanted):
    store, uses = ReplayStore(max_uses), {}
    for step, count in enumerate(wanted):
        groups = store.take(count, step=step, max_lag=constant_lag(max_lag))
        assert all(step - g.oldest_version <= max_lag for g in groups)
        assert len(set(admissions(groups))) == len(groups)
        batch = [*groups, make_group([0.0, 1.0], admission=step, version=step)]
        store.trained(batch)
        for group in batch:
            uses[group.admission] = uses.get(group.admission, 0) + 1
    assert max(uses.values()) <= max_uses


def test_refuses_no_use():
    with pytest.raises(ValueError, match="max_uses 0"):
        ReplayStore(0)
