"""Admission by worked-out examples: target_step - acked_version <= max_lag(target_step)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.curation.lag import constant_lag
from headrace.pipeline.gate import AdmissionGate
from headrace.pipeline.ledger import Ledger, Outstanding
from headrace.records import Group

Entry = Callable[[int, int], Outstanding]


def admitted(make_entry: Entry, gate: AdmissionGate, book: Ledger, acked: int) -> int:
    """Admit until the gate shuts; how many that were."""
    n = 0
    while gate.decide(book, acked).open:
        book.admit(make_entry(len(book), acked))
        n += 1
    return n


@pytest.mark.parametrize(
    ("max_lag", "version", "acked", "expected"),
    [
        (0, 0, 0, 3),  # synchronous: one step's groups
        (0, 4, 4, 3),
        (0, 4, 3, 0),  # the generator has not confirmed version 4 yet: nothing starts
        (1, 4, 4, 6),
        (1, 4, 3, 3),  # one version behind: only step 4 can still take its tokens
        (4, 7, 7, 15),
        (4, 7, 5, 9),  # steps 7, 8, 9 = 5 + 4
        (4, 7, 8, 18),  # it confirmed version 8 before the trainer's own message came: up to step 12
    ],
)
def test_as_many_groups_as_the_confirmed_version_has_steps_left(
    make_entry: Entry, max_lag: int, version: int, acked: int, expected: int
) -> None:
    book = Ledger(groups_per_step=3, max_lag=constant_lag(max_lag), trainer_version=version)
    gate = AdmissionGate(total_steps=100, max_ready_batches=100)
    assert admitted(make_entry, gate, book, acked) == expected
    assert gate.decide(book, acked).reason == "lag"


def test_the_running_step_counts(make_entry: Entry, make_group: Callable[..., Group]) -> None:
    """max_lag 0: step 4 runs with its 2 groups, so a new group would train in step 5 with tokens of version 4."""
    book = Ledger(groups_per_step=2, max_lag=constant_lag(0), trainer_version=4)
    for admission in range(2):
        book.admit(make_entry(admission, 4))
        book.finish(admission, make_group(admission, [4], [4]))
    book.assign([0, 1], step=4)
    gate = AdmissionGate(total_steps=100, max_ready_batches=2)
    assert gate.decide(book, 4).reason == "lag"
    book.complete(4)
    assert gate.decide(book, 4).reason == "lag"  # trained, but version 5 is not confirmed
    assert gate.decide(book, 5).open


def test_generators_are_judged_each_by_what_it_confirmed(make_entry: Entry) -> None:
    """Bound 2, version 6, 4 groups of a step of 2 outstanding: target step 8. Version 6 may, version 5 may not."""
    book = Ledger(groups_per_step=2, max_lag=constant_lag(2), trainer_version=6)
    for admission in range(4):
        book.admit(make_entry(admission, 6))
    gate = AdmissionGate(total_steps=100, max_ready_batches=9)
    assert gate.decide(book, 6).open
    assert not gate.decide(book, 5).open


def test_a_falling_bound_is_looked_up_at_the_step_the_group_will_train_in(make_entry: Entry) -> None:
    """Bound 4, 1 from step 10 on; version 8. Steps 8 and 9 may still be filled (lag 1), step 10 (lag 2) may not."""
    book = Ledger(groups_per_step=2, max_lag=lambda step: 4 if step < 10 else 1, trainer_version=8)
    gate = AdmissionGate(total_steps=100, max_ready_batches=9)
    assert admitted(make_entry, gate, book, 8) == 4


def test_no_more_groups_than_the_steps_left_consume(make_entry: Entry) -> None:
    book = Ledger(groups_per_step=3, max_lag=constant_lag(8), trainer_version=8)
    gate = AdmissionGate(total_steps=10, max_ready_batches=9)
    assert admitted(make_entry, gate, book, 8) == 6
    assert gate.decide(book, 8).reason == "end"
    book.remove(2)  # a refilled slot opens it again
    assert gate.decide(book, 8).open


def test_finished_groups_that_pile_up_shut_the_gate(make_entry: Entry, make_group: Callable[..., Group]) -> None:
    book = Ledger(groups_per_step=2, max_lag=constant_lag(8), trainer_version=0)
    gate = AdmissionGate(total_steps=100, max_ready_batches=2)
    for admission in range(4):
        assert gate.decide(book, 0).open
        book.admit(make_entry(admission, 0))
        book.finish(admission, make_group(admission, [0], [0]))
    assert gate.decide(book, 0).reason == "ready"
    book.assign([0, 1], step=0)
    assert gate.decide(book, 0).open
