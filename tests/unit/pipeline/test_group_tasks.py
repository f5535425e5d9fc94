"""How long rule 'refill' goes on without success."""

from __future__ import annotations

import pytest

from headrace.pipeline.group_tasks import most_refills


@pytest.mark.parametrize(("groups_per_step", "most"), [(1, 200), (10, 200), (11, 220), (32, 640)])
def test_twenty_for_each_group_and_never_so_few_that_bad_luck_meets_it(groups_per_step: int, most: int) -> None:
    assert most_refills(groups_per_step) == most


def test_bad_luck_does_not_meet_the_least_bound() -> None:
    """One group in ten with a signal: 200 in a row without one in fewer than one run of a billion groups."""
    assert 0.9 ** most_refills(1) < 1e-9
