"""Which groups a step takes, by worked-out examples, and the sweep at the bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from headrace.curation.lag import constant_lag
from headrace.errors import LagViolation
from headrace.pipeline.batcher import cut, sweep
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.records import Group

Entry = Callable[[int, int], Outstanding]
MakeGroup = Callable[..., Group]
Books = Callable[..., Ledger]


@pytest.fixture
def books(make_entry: Entry, make_group: MakeGroup) -> Books:
    """A ledger of groups 0, 1, ... of the given versions; ``finished`` of them are."""

    def make(versions: Sequence[int], finished: Sequence[int], *, max_lag: int, version: int, size: int = 2) -> Ledger:
        book = Ledger(groups_per_step=size, max_lag=constant_lag(max_lag), trainer_version=version)
        for admission, oldest in enumerate(versions):
            book.admit(make_entry(admission, oldest))
            if admission in finished:
                book.finish(admission, make_group(admission, [oldest], [oldest]))
        return book

    return make


def admissions(groups: Sequence[Group] | Sequence[Outstanding]) -> list[int]:
    return [g.admission for g in groups]


def test_nothing_is_cut_before_a_full_batch_is_finished(books: Books) -> None:
    assert cut(books([0, 0, 0], [1], max_lag=4, version=0), at_bound="wait") is None


def test_the_earliest_deadlines_go_first_and_groups_come_in_order_of_admission(books: Books) -> None:
    """Versions 2 1 2 1, all finished: groups 1 and 3 are the oldest."""
    book = books([2, 1, 2, 1], [0, 1, 2, 3], max_lag=2, version=2)
    batch = cut(book, at_bound="wait")
    assert batch is not None
    assert (batch.step, admissions(batch.groups), batch.dropped) == (2, [1, 3], ())
    again = cut(book, at_bound="wait")  # the next step, while the first one runs
    assert again is not None
    assert (again.step, admissions(again.groups)) == (3, [0, 2])
    assert cut(book, at_bound="wait") is None


def test_a_finished_group_overtakes_when_everything_left_still_fits(books: Books) -> None:
    """Bound 1, version 0: group 0 is not finished, 1 and 2 are. Group 0 then trains in step 1 = its deadline."""
    batch = cut(books([0, 0, 0, 0], [1, 2], max_lag=1, version=0), at_bound="wait")
    assert batch is not None
    assert admissions(batch.groups) == [1, 2]


def test_it_does_not_overtake_a_group_whose_deadline_is_this_step(books: Books) -> None:
    """Bound 1 at step 1: group 0 (version 0) must train now, so the step waits for it."""
    book = books([0, 1, 1], [1, 2], max_lag=1, version=1)
    assert cut(book, at_bound="wait") is None
    assert len(book) == 3


def test_three_left_behind_do_not_fit_one_step(books: Books) -> None:
    """Bound 2, two a step, step 2: groups 0, 1, 2 unfinished of version 1, all due by step 3, which holds two of them.
    So 3 and 4 may not overtake; once group 0 is finished, it goes with 3 and the others fit."""
    book = books([1, 1, 1, 2, 2], [3, 4], max_lag=2, version=2)
    assert cut(book, at_bound="wait") is None
    book = books([1, 1, 1, 2, 2], [0, 3, 4], max_lag=2, version=2)
    batch = cut(book, at_bound="wait")
    assert batch is not None
    assert admissions(batch.groups) == [0, 3]


def test_drop_gives_up_the_unfinished_group_instead(books: Books) -> None:
    book = books([0, 1, 1, 1], [1, 2], max_lag=1, version=1)
    batch = cut(book, at_bound="drop")
    assert batch is not None
    assert (admissions(batch.groups), admissions(batch.dropped)) == ([1, 2], [0])
    assert admissions(book.waiting()) == [3]


def test_drop_gives_up_no_more_than_it_must(books: Books) -> None:
    """The same three unfinished groups due by step 3, which has two places: the first admitted goes."""
    book = books([1, 1, 1, 2, 2], [3, 4], max_lag=2, version=2)
    batch = cut(book, at_bound="drop")
    assert batch is not None
    assert admissions(batch.dropped) == [0]
    assert admissions(book.waiting()) == [1, 2]


def test_drop_gives_up_a_group_that_has_trained_before_one_that_has_not(
    books: Books, make_group: MakeGroup, make_entry: Entry
) -> None:
    """Bound 2, two a step, step 2 takes 0 and 1. Three are due by step 3: 2, which has trained, and 3 and 4, which are
    being written. Group 2 goes, and is no loss to report."""
    book = books([0, 0], [0, 1], max_lag=2, version=2)
    for admission in (3, 4):
        book.admit(make_entry(admission, 1))
    book.admit(replace(make_entry(2, 1), group=make_group(2, [1], [1]), group_version=1, uses=1))
    batch = cut(book, at_bound="drop")
    assert batch is not None
    assert (admissions(batch.groups), batch.uses, batch.dropped) == ([0, 1], (0, 0), ())
    assert admissions(book.waiting()) == [3, 4]


def test_a_cut_says_how_often_its_groups_have_trained(books: Books, make_group: MakeGroup, make_entry: Entry) -> None:
    book = books([0, 1], [0, 1], max_lag=2, version=1)
    book.admit(replace(make_entry(2, 0), group=make_group(2, [0], [0]), group_version=0, uses=2))
    batch = cut(book, at_bound="wait")
    assert batch is not None
    assert (admissions(batch.groups), batch.uses) == ([0, 2], (0, 2))


def test_waiting_that_cannot_help_is_an_error_and_not_a_hang(books: Books) -> None:
    """Five groups of version 0 under bound 1, two a step: the fifth would train in step 2, whatever finishes when."""
    with pytest.raises(LagViolation, match="group 4 can be trained in step 2 at the earliest, at lag 2; max_lag is 1"):
        cut(books([0] * 5, [0, 1], max_lag=1, version=0), at_bound="wait")


@pytest.mark.parametrize(("version", "accepted"), [(4, False), (5, True), (6, True), (7, True)])
def test_the_bound_is_inclusive(make_group: MakeGroup, version: int, accepted: bool) -> None:
    """Step 7, max_lag 2: versions 5, 6 and 7 may be trained, 4 may not."""
    group = make_group(0, [version], [7])
    if accepted:
        sweep([group], step=7, max_lag=constant_lag(2))
    else:
        with pytest.raises(LagViolation, match="train-0-0 would be trained at lag 3 in step 7, max_lag is 2"):
            sweep([group], step=7, max_lag=constant_lag(2))


def test_age_counts_from_the_first_token_and_not_the_last(make_group: MakeGroup) -> None:
    """Begun at version 3, ended at version 5, trained in step 6: lag 3."""
    group = make_group(0, [3, 4, 5])
    sweep([group], step=6, max_lag=constant_lag(3))
    with pytest.raises(LagViolation, match="lag 3"):
        sweep([group], step=6, max_lag=constant_lag(2))


def test_a_token_from_the_future_is_an_error(make_group: MakeGroup) -> None:
    with pytest.raises(LagViolation, match="token of version 4, newer than step 3"):
        sweep([make_group(0, [3, 4])], step=3, max_lag=constant_lag(9))


def test_one_stale_member_takes_its_whole_group_along(books: Books, make_group: MakeGroup, make_entry: Entry) -> None:
    """The fourth member of group 0 began two versions earlier: the group is as old as that and is never split, so the
    others' baseline stays (1 + 0 + 0 + 1) / 4."""
    book = books([], [], max_lag=1, version=2)
    book.admit(make_entry(0, 0))
    for admission in (1, 2):
        book.admit(make_entry(admission, 2))
        book.finish(admission, make_group(admission, [2], [2]))
    batch = cut(book, at_bound="drop")
    assert batch is not None
    assert admissions(batch.dropped) == [0]
    group = make_group(3, [2], [2], [2], [0], rewards=[1, 0, 0, 1])
    assert group.oldest_version == 0
    with pytest.raises(LagViolation):
        sweep([group], step=2, max_lag=constant_lag(1))
