"""Which groups are worth training on again."""

import dataclasses

import pytest

from headrace.curation.replay import may_train_again


@pytest.mark.parametrize(("uses", "max_uses", "expected"), [(1, 1, False), (1, 2, True), (2, 2, False), (2, 3, True)])
def test_uses_are_counted_out(make_group, uses, max_uses, expected):
    assert may_train_again(make_group([0.0, 1.0]), uses, max_uses) is expected


def test_what_taught_nothing_does_not_come_again(make_group):
    blanked = dataclasses.replace(make_group([1.0, 1.0]), signal=False)
    unwritten = make_group([1.0, 0.0], lengths=[0, 0])
    assert not may_train_again(blanked, 1, 2)
    assert not may_train_again(unwritten, 1, 2)
