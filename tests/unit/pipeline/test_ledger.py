"""Worked-out values of the ledger: everything is derived from the set of outstanding groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.curation.lag import constant_lag
from headrace.pipeline.ledger import Ledger, Outstanding, last_step_for
from headrace.records import Group

Entry = Callable[[int, int], Outstanding]
MakeGroup = Callable[..., Group]


def ledger(max_lag: int = 2, *, groups_per_step: int = 2, version: int = 0) -> Ledger:
    return Ledger(groups_per_step=groups_per_step, max_lag=constant_lag(max_lag), trainer_version=version)


@pytest.mark.parametrize(("version", "max_lag", "step"), [(0, 0, 0), (7, 0, 7), (7, 2, 9), (3, 8, 11)])
def test_the_deadline_under_a_constant_bound_is_version_plus_bound(version: int, max_lag: int, step: int) -> None:
    assert last_step_for(version, constant_lag(max_lag)) == step


def test_the_deadline_looks_ahead_along_a_falling_bound() -> None:
    """Bound 4 before step 10, 1 from there. Step 10 takes versions >= 9, so versions 5 to 8 end at step 9."""

    def falling(step: int) -> int:
        return 4 if step < 10 else 1

    assert [last_step_for(v, falling) for v in (4, 5, 6, 7, 8, 9, 10)] == [8, 9, 9, 9, 9, 10, 11]


def test_target_and_next_step_count_outstanding_groups(make_entry: Entry, make_group: MakeGroup) -> None:
    """Two groups a step, trainer at version 5."""
    book = ledger(version=5)
    assert (book.target_step, book.next_step, len(book)) == (5, 5, 0)
    for admission in range(3):
        book.admit(make_entry(admission, 5))
    assert book.target_step == 6  # 5 + 3 // 2: the next group is the second of step 6
    for admission in (0, 1):
        book.finish(admission, make_group(admission, [5], [5]))
    assert book.num_ready == 2
    book.assign([0, 1], step=5)
    assert book.next_step == 6  # step 5 runs
    assert book.target_step == 6  # its groups still count
    assert (book.num_ready, len(book)) == (0, 3)
    assert [e.admission for e in book.complete(5)] == [0, 1]
    assert (book.trainer_version, book.next_step, book.target_step, len(book)) == (6, 6, 6, 1)


def test_a_finished_group_is_as_old_as_its_oldest_token(make_entry: Entry, make_group: MakeGroup) -> None:
    book = ledger(max_lag=2)
    book.admit(make_entry(0, 3))
    assert book.deadline(book.entries()[0]) == 5  # it may still get tokens of version 3
    book.finish(0, make_group(0, [5, 6, 7], [4, 4]))
    assert book.entries()[0].oldest_version == 4
    assert book.deadline(book.entries()[0]) == 6


def test_a_group_without_a_sampled_token_is_as_old_as_its_admission(make_entry: Entry, make_group: MakeGroup) -> None:
    book = ledger()
    book.admit(make_entry(0, 3))
    book.finish(0, make_group(0, [], []))
    assert book.entries()[0].oldest_version == 3


def test_overdue_groups_by_place_in_deadline_order(make_entry: Entry) -> None:
    """Bound 1, two a step. Versions 0 0 0 1 have deadlines 1 1 1 2. From step 0 on they train in steps 0 0 1 1: fine.
    From step 1 on in 1 1 2 2: the third (admission 2) is overdue, the fourth is not."""
    book = ledger(max_lag=1)
    entries = [make_entry(0, 0), make_entry(1, 1), make_entry(2, 0), make_entry(3, 0)]
    assert [e.admission for e in book.by_deadline(entries)] == [0, 2, 3, 1]
    assert book.overdue(entries, 0) == []
    assert [e.admission for e in book.overdue(entries, 1)] == [3]


def test_a_dropped_group_that_finishes_later_is_ignored(make_entry: Entry, make_group: MakeGroup) -> None:
    book = ledger()
    book.admit(make_entry(0, 0))
    removed = book.remove(0)
    assert removed is not None
    assert removed.admission == 0
    assert book.remove(0) is None
    book.finish(0, make_group(0, [0]))
    assert len(book) == 0


def test_what_happens_twice_is_an_error(make_entry: Entry, make_group: MakeGroup) -> None:
    book = ledger()
    book.admit(make_entry(0, 0))
    with pytest.raises(ValueError, match="group 0 was admitted twice"):
        book.admit(make_entry(0, 0))
    book.finish(0, make_group(0, [0]))
    with pytest.raises(ValueError, match="group 0 finished twice"):
        book.finish(0, make_group(0, [0]))
    book.assign([0], step=0)
    book.complete(0)
    with pytest.raises(ValueError, match="step 0 completed while the trainer is at version 1"):
        book.complete(0)


def trained(book: Ledger, make_entry: Entry, make_group: MakeGroup, versions: dict[int, int]) -> list[Outstanding]:
    """Groups of the given versions, admitted, finished and trained in the next step."""
    for admission, version in versions.items():
        book.admit(make_entry(admission, version))
        book.finish(admission, make_group(admission, [version], [version]))
    book.assign(versions, book.next_step)
    return book.complete(book.trainer_version)


def test_a_trained_group_has_one_use_more(make_entry: Entry, make_group: MakeGroup) -> None:
    book = ledger(max_lag=2, groups_per_step=2)
    done = trained(book, make_entry, make_group, {0: 0, 1: 0})
    assert [e.uses for e in done] == [1, 1]
    assert len(book) == 0
    back = book.put_back(done)
    assert [(e.admission, e.uses, e.step) for e in book.waiting()] == [(0, 1, None), (1, 1, None)]
    assert len(back) == 2
    assert (book.num_ready, book.target_step) == (2, 2)  # they take the places of step 1
    book.assign([0, 1], 1)
    assert [e.uses for e in book.complete(1)] == [2, 2]


def test_a_group_comes_back_only_while_its_deadline_allows_a_step(make_entry: Entry, make_group: MakeGroup) -> None:
    """Bound 1: version 0 may train in step 1 and not in step 2."""
    book = ledger(max_lag=1, groups_per_step=2)
    done = trained(book, make_entry, make_group, {0: 0, 1: 0})
    assert len(book.put_back(done)) == 2
    book.assign([0, 1], 1)
    assert book.put_back(book.complete(1)) == []
    assert len(book) == 0


def test_a_step_that_was_cut_already_is_not_one_to_train_in(make_entry: Entry, make_group: MakeGroup) -> None:
    """Step 1 is cut while step 0 runs: what trained in step 0 could come back in step 2, beyond bound 1."""
    book = ledger(max_lag=1, groups_per_step=1)
    for admission in (0, 1):
        book.admit(make_entry(admission, 0))
        book.finish(admission, make_group(admission, [0], [0]))
    book.assign([0], 0)
    book.assign([1], 1)
    assert book.put_back(book.complete(0)) == []


def test_groups_come_back_as_far_as_what_waits_still_fits(make_entry: Entry, make_group: MakeGroup) -> None:
    """Bound 2, two a step. After step 0, steps 1 and 2 have four places for version 0; three groups wait for them."""
    book = ledger(max_lag=2, groups_per_step=2)
    for admission in (2, 3, 4):
        book.admit(make_entry(admission, 0))
    done = trained(book, make_entry, make_group, {0: 0, 1: 0})
    assert [e.admission for e in book.put_back(done)] == [1]  # one place, the later admitted has it
    assert [e.admission for e in book.entries()] == [1, 2, 3, 4]
    assert book.overdue(book.waiting(), book.next_step) == []


def test_no_more_come_back_than_there_is_room_for(make_entry: Entry, make_group: MakeGroup) -> None:
    book = ledger(max_lag=4, groups_per_step=3, version=1)
    done = trained(book, make_entry, make_group, {0: 0, 1: 1, 2: 0})
    assert [e.admission for e in book.put_back(done, 1)] == [1]  # the newest
    assert book.put_back(done, 0) == []
