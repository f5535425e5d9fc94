"""Worked-out weights, among them the cases where other libraries divided by the wrong count."""

import numpy as np
import pytest

from headrace.errors import RecordError
from headrace.packing.loss_weights import token_weights

LENGTHS, GROUP = [10, 30, 20, 20], [0, 0, 1, 1]


def mean(rule, token_losses, group):
    """The aggregated loss of ragged token losses."""
    lengths = [len(row) for row in token_losses]
    weights = token_weights(rule, lengths, group)
    return sum(w * sum(row) for w, row in zip(weights, token_losses, strict=True))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("token_mean", [1 / 80] * 4),
        ("sample_mean", [1 / 40, 1 / 120, 1 / 80, 1 / 80]),
        ("prompt_mean", [0.0125] * 4),
    ],
)
def test_two_prompts_of_two(rule, expected):
    assert token_weights(rule, LENGTHS, GROUP) == pytest.approx(expected)


def test_prompt_mean_with_unequal_prompts():
    assert token_weights("prompt_mean", [10, 10, 20, 20], GROUP) == pytest.approx([0.025, 0.025, 0.0125, 0.0125])


@pytest.mark.parametrize("rule", ["token_mean", "sample_mean", "prompt_mean"])
def test_weights_of_an_update_sum_to_one(rule):
    lengths = np.array([3, 0, 7, 1, 9])
    assert (token_weights(rule, lengths, [0, 0, 4, 4, 2]) * lengths).sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("rule", "value"), [("token_mean", 2.0), ("sample_mean", 2.25), ("prompt_mean", (1.5 + 3.0) / 2)]
)
def test_ragged_rows(rule, value):
    assert mean(rule, [[1.0, 2.0], [3.0]], [0, 1]) == pytest.approx(value)


def test_token_mean_counts_the_whole_update():
    assert mean("token_mean", [[1.0] * 6, [4.0] * 2], [0, 1]) == pytest.approx(1.75)
    assert mean("token_mean", [[3.0] * 2, [1.0] * 8], [0, 1]) == pytest.approx(1.4)
    assert mean("token_mean", [[0.5] * 12, [1.5] * 4], [0, 1]) == pytest.approx(0.75)


def test_sample_mean_of_sequence_losses():
    losses = [0.2, 0.4, 0.9, 0.1, 0.3, 0.5, 0.7, 0.9]
    assert mean("sample_mean", [[v] for v in losses], range(8)) == pytest.approx(0.5)
    assert mean("sample_mean", [[g] * n for g, n in zip([3, 5, 7, 9], [1, 2, 3, 4])], range(4)) == pytest.approx(6.0)


def test_a_masked_rollout_is_in_no_denominator():
    weights = token_weights("token_mean", [4, 0], [0, 1])
    assert weights.tolist() == [0.25, 0.0]
    assert token_weights("sample_mean", [4, 0, 2], [0, 0, 1]).tolist() == [1 / 8, 0.0, 1 / 4]
    assert token_weights("prompt_mean", [4, 0, 0], [0, 0, 1]).tolist() == [0.25, 0.0, 0.0]


@pytest.mark.parametrize("rule", ["token_mean", "sample_mean", "prompt_mean"])
def test_nothing_left_gives_zeros(rule):
    assert token_weights(rule, [0, 0], [0, 1]).tolist() == [0.0, 0.0]
    assert token_weights(rule, [], []).tolist() == []


def test_unknown_rule_and_unequal_shapes_are_refused():
    with pytest.raises(RecordError, match="token_mean, sample_mean, prompt_mean"):
        token_weights("mean", [1], [0])
    with pytest.raises(RecordError, match="must be"):
        token_weights("token_mean", [1, 2], [0])
