"""Worked-out weights, among them the cases where other libraries divided by the wrong count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import RecordError
from headrace.packing.loss_weights import token_weights

LENGTHS, GROUP = [10, 30, 20, 20], [0, 0, 1, 1]
MEANS = ("token_mean", "sample_mean", "prompt_mean", "prompt_sample_mean")


def mean(rule, token_losses, group, **keys):
    """The aggregated loss of ragged token losses."""
    lengths = [len(row) for row in token_losses]
    weights = token_weights(rule, lengths, group, **keys)
    return sum(w * sum(row) for w, row in zip(weights, token_losses, strict=True))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("token_mean", [1 / 80] * 4),
        ("sample_mean", [1 / 40, 1 / 120, 1 / 80, 1 / 80]),
        ("prompt_mean", [0.0125] * 4),
        ("prompt_sample_mean", [0.025, 1 / 120, 0.0125, 0.0125]),
    ],
)
def test_two_prompts_of_two(rule, expected):
    assert token_weights(rule, LENGTHS, GROUP) == pytest.approx(expected)


def test_prompt_mean_with_unequal_prompts():
    assert token_weights("prompt_mean", [10, 10, 20, 20], GROUP) == pytest.approx([0.025, 0.025, 0.0125, 0.0125])


@pytest.mark.parametrize("rule", MEANS)
def test_weights_of_an_update_sum_to_one(rule):
    lengths = np.array([3, 0, 7, 1, 9])
    assert (token_weights(rule, lengths, [0, 0, 4, 4, 2]) * lengths).sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("rule", "value"), [("token_mean", 2.0), ("sample_mean", 2.25), ("prompt_mean", 2.25), ("prompt_sample_mean", 2.25)]
)
def test_ragged_rows(rule, value):
    assert mean(rule, [[1.0, 2.0], [3.0]], [0, 1]) == pytest.approx(value)


def test_prompts_of_unequal_size_tell_the_two_prompt_means_apart():
    # Prompt 0: losses 1 1 | 4 4 4 4 | 7, prompt 1: 2 2.
    losses, group = [[1.0] * 2, [4.0] * 4, [7.0], [2.0] * 2], [0, 0, 0, 1]
    assert mean("prompt_mean", losses, group) == pytest.approx((25 / 7 + 2) / 2)
    assert mean("prompt_sample_mean", losses, group) == pytest.approx((12 / 3 + 2) / 2)
    assert mean("sample_mean", losses, group) == pytest.approx(14 / 4)
    assert mean("token_mean", losses, group) == pytest.approx(29 / 9)


def test_constant_divides_by_rollouts_times_horizon():
    assert mean("constant", [[1.0, 2.0], [3.0]], [0, 1], horizon=4) == pytest.approx(0.75)
    assert token_weights("constant", [4, 0, 1], [0, 0, 1], horizon=10).tolist() == [1 / 20, 0.0, 1 / 20]


@pytest.mark.parametrize("horizon", [None, 0, -3])
def test_constant_needs_a_horizon(horizon):
    with pytest.raises(RecordError, match="horizon"):
        token_weights("constant", [4], [0], horizon=horizon)


def test_the_mean_of_means_over_microbatches_is_not_the_token_mean():
    # Rows of 4 and 10 tokens with mean losses 3 and 11.6: the whole has 128 / 14, the mean of the two 7.3.
    assert mean("token_mean", [[3.0] * 4, [11.6] * 10], [0, 1]) == pytest.approx(128 / 14)


def test_truncated_completions_leave_numerator_and_denominator_alike():
    finished, cut_off = [1.0] * 4, [1.0] * 6
    kept = token_weights("token_mean", [len(finished), 0], [0, 1])
    assert kept[0] * sum(finished) + kept[1] * sum(cut_off) == 1.0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=20), st.randoms())
def test_order_of_rollouts_does_not_matter(rollouts, random):
    shuffled = rollouts.copy()
    random.shuffle(shuffled)
    for rule in (*MEANS, "constant"):
        plain, moved = (
            sorted(zip(rows, token_weights(rule, *zip(*rows, strict=True), horizon=9).tolist(), strict=True))
            for rows in (rollouts, shuffled)
        )
        assert [row for row, _ in plain] == [row for row, _ in moved]
        assert [w for _, w in plain] == pytest.approx([w for _, w in moved], rel=1e-15)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=20))
def test_equals_a_slow_loop(rollouts):
    lengths, group = (list(part) for part in zip(*rollouts, strict=True))
    live = [i for i, n in enumerate(lengths) if n]
    prompts = {group[i] for i in live}
    for i, n in enumerate(lengths):
        mine = [lengths[j] for j in live if group[j] == group[i]]
        expected = {
            "token_mean": n and 1 / sum(lengths),
            "sample_mean": n and 1 / (len(live) * n),
            "prompt_mean": n and 1 / (len(prompts) * sum(mine)),
            "prompt_sample_mean": n and 1 / (len(prompts) * len(mine) * n),
            "constant": n and 1 / (len(live) * 30),
        }
        for rule, weight in expected.items():
            assert token_weights(rule, lengths, group, horizon=30)[i] == pytest.approx(weight, rel=1e-14)


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


@pytest.mark.parametrize("rule", MEANS)
def test_nothing_left_gives_zeros(rule):
    assert token_weights(rule, [0, 0], [0, 1]).tolist() == [0.0, 0.0]
    assert token_weights(rule, [], []).tolist() == []


def test_unknown_rule_and_unequal_shapes_are_refused():
    with pytest.raises(RecordError, match="token_mean, sample_mean, prompt_mean"):
        token_weights("mean", [1], [0])
    with pytest.raises(RecordError, match="must be"):
        token_weights("token_mean", [1, 2], [0])
