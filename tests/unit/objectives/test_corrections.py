"""Importance corrections, each against numbers worked out by hand."""

import math

import pytest
import torch

from headrace.objectives.corrections import importance_weight, off_policy_sequence_mask
from tests.unit.objectives.tokens import tensor


def weight(log_weight, segment=None, **keys):
    target = tensor(log_weight).requires_grad_()
    segment = torch.zeros(len(log_weight), dtype=torch.int64) if segment is None else torch.tensor(segment)
    found = importance_weight(target, torch.zeros_like(target), segment, **keys)
    assert not found.requires_grad
    return found.tolist()


def test_truncation_caps_from_above_alone():
    assert weight([0.0, math.log(1.5), math.log(4.0), -800.0]) == pytest.approx([1.0, 1.5, 2.0, math.exp(-20)])


def test_product_and_geometric_mean_are_two_things():
    log_weight = [0.2, -0.5, 0.1]
    assert weight(log_weight, level="sequence") == pytest.approx([0.818731] * 3, abs=1e-6)
    assert weight(log_weight, level="geometric") == pytest.approx([0.935507] * 3, abs=1e-6)
    assert weight(log_weight, level="token") == pytest.approx([math.exp(v) for v in log_weight])


def test_each_sequence_has_its_own_product():
    assert weight([0.5, -0.1, 0.5, -0.1], [4, 9, 4, 9], level="sequence", high=5.0) == pytest.approx(
        [math.e, math.exp(-0.2)] * 2
    )


def test_sequence_weight_is_truncated_after_the_product():
    assert weight([math.log(3), math.log(0.5)], level="sequence", high=2.0) == pytest.approx([1.5, 1.5])
    assert weight([math.log(3), math.log(3)], level="sequence", high=2.0) == [2.0, 2.0]


def test_mask_of_icepop():
    found = weight([-0.5, 2.5, -0.2], mode="mask", low=0.5, high=5.0)
    assert found == pytest.approx([0.6065, 0.0, 0.8187], abs=5e-5)


def test_mask_includes_both_ends():
    ends = tensor([0.5, 4.0])
    found = importance_weight(ends.log(), tensor([0.0, 0.0]), torch.arange(2), mode="mask", low=0.5, high=4.0)
    assert found.tolist() == pytest.approx([0.5, 4.0])


def test_a_lower_end_of_zero_is_none():
    assert weight([math.log(0.3)], mode="mask", low=0.0, high=2.0) == pytest.approx([0.3])
    assert weight([-800.0], mode="mask", low=0.0, high=2.0) == pytest.approx([math.exp(-20)])


def test_mask_by_geometric_mean_drops_whole_sequences():
    # Mean log weights .0005 and .003: inside and outside [.999, 1.002].
    found = weight([0.1, -0.099, 0.1, -0.094], [0, 0, 1, 1], mode="mask", level="geometric", low=0.999, high=1.002)
    assert found == pytest.approx([math.exp(0.0005)] * 2 + [0.0, 0.0])


def test_mask_by_sequence_product():
    found = weight([-0.5, -0.5, 0.25, 0.25], [0, 0, 1, 1], mode="mask", level="sequence", low=0.5, high=2.0)
    assert found == pytest.approx([0.0, 0.0, 1.648721, 1.648721])


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize("mode", ["truncate", "mask"])
def test_extremes_stay_finite_and_no_tokens_give_no_weights(level, mode):
    assert all(math.isfinite(w) for w in weight([900.0, 900.0, -900.0], [0, 0, 1], mode=mode, level=level, high=1e9))
    assert weight([], mode=mode, level=level) == []


def test_sequences_the_policy_has_left_are_dropped_where_the_advantage_is_negative():
    # Mean of old - current: .1 for the first two sequences, -.1 for the third, 5e-5 for the fourth.
    old = tensor([0.2, 0.0, 0.2, 0.0, -0.1, 5e-5])
    mask = off_policy_sequence_mask(
        tensor([0.0] * 6),
        old,
        tensor([-1.0, -1.0, 1.0, 1.0, -1.0, -1.0]),
        torch.tensor([0, 0, 1, 1, 2, 3]),
        delta=1e-4,
    )
    assert mask.tolist() == [0, 0, 1, 1, 1, 1]
