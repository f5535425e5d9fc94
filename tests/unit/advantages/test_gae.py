"""Worked-out advantages and returns, and a loop written another way (sums of deltas instead of the recursion)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.advantages.gae import batched_gae, gae, length_adaptive_lambda, segment_gae
from headrace.errors import RecordError

NUMBERS = st.floats(-3, 3, allow_nan=False, width=32)
UNIT = st.floats(0, 1)


def slow(reward, value, gamma, lam, bootstrap):
    """A_t as the sum over s >= t of (gamma lambda)^(s - t) delta_s, term by term."""
    following = [*value[1:], bootstrap]
    deltas = [r + gamma * after - v for r, after, v in zip(reward, following, value, strict=True)]
    return [sum((gamma * lam) ** (s - t) * deltas[s] for s in range(t, len(deltas))) for t in range(len(deltas))]


def test_three_tokens_with_gamma_and_lambda_a_half():
    # delta = [1 + 1 - 4, 2 + .5 - 2, 3 - 1] = [-2, .5, 2]; A = [-2 + .25, .5 + .5, 2].
    advantage, returns = gae([1, 2, 3], [4, 2, 1], gamma=0.5, lam=0.5)
    assert advantage.tolist() == [-1.75, 1.0, 2.0]
    assert returns.tolist() == [2.25, 3.0, 3.0]


def test_lambda_one_gives_the_return_to_go_whatever_the_values():
    advantage, returns = gae([1, 2, 3], [0.5, 1, 1.5], gamma=1.0, lam=1.0)
    assert returns.tolist() == [6, 5, 3]
    assert advantage.tolist() == [5.5, 4, 1.5]
    assert gae([1, 2, 3], [0.5, 1, 1.5], gamma=1.0, lam=0.5)[1].tolist() == [3.625, 4.25, 3]


def test_lambda_zero_is_the_one_step_error():
    assert gae([0, 0, 1], [0.25, 0.5, 0.75], gamma=1.0, lam=0.0)[0].tolist() == [0.25, 0.25, 0.25]


def test_bootstrap_stands_for_what_was_cut_off():
    advantage, returns = gae([0.0, 0.0], [1.0, 1.0], gamma=0.5, lam=1.0, bootstrap=4.0)
    assert returns.tolist() == [1.0, 2.0]
    assert advantage.tolist() == [0.0, 1.0]


def test_tokens_of_a_tool_are_passed_over():
    plain = gae([1, 2, 3], [4, 2, 1], gamma=0.5, lam=0.5)
    mask = [True, False, False, True, True]
    skipped = gae([1, 9, 9, 2, 3], [4, 7, 7, 2, 1], gamma=0.5, lam=0.5, mask=mask)
    for whole, dense in zip(skipped, plain, strict=True):
        assert whole[mask].tolist() == dense.tolist()
        assert whole[[1, 2]].tolist() == [0, 0]


def test_nothing_to_estimate():
    for result in (*gae([], [], gamma=1.0, lam=1.0), *batched_gae([], [], [], gamma=1.0, lam=1.0)):
        assert result.tolist() == []
    assert gae([1.0], [2.0], gamma=1.0, lam=1.0, mask=[False])[0].tolist() == [0.0]
    assert batched_gae([1.0], [2.0], [0, 1, 0], gamma=1.0, lam=1.0)[0].tolist() == [-1.0]


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40), UNIT, UNIT, NUMBERS)
def test_equals_the_sum_of_discounted_errors(tokens, gamma, lam, bootstrap):
    reward, value = (list(part) for part in zip(*tokens, strict=True))
    advantage, returns = gae(reward, value, gamma=gamma, lam=lam, bootstrap=bootstrap)
    expected = slow(reward, value, gamma, lam, bootstrap)
    assert advantage == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert returns == pytest.approx(np.add(expected, value), rel=1e-12, abs=1e-12)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=40), UNIT, UNIT, st.integers(1, 45))
def test_pieces_of_any_size_give_the_same_bits(tokens, gamma, lam, size):
    reward, value, mask = (list(part) for part in zip(*tokens, strict=True))
    how = {"gamma": gamma, "lam": lam, "bootstrap": 0.3, "mask": mask}
    whole, pieces = gae(reward, value, **how), segment_gae(reward, value, segment_tokens=size, **how)
    for one, other in zip(whole, pieces, strict=True):
        assert one.tolist() == other.tolist()


@given(
    st.lists(st.tuples(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6), UNIT, NUMBERS), min_size=1, max_size=6), UNIT
)
def test_a_batch_gives_every_rollout_its_own_bits(rollouts, gamma):
    tokens = [token for own, _, _ in rollouts for token in own]
    reward, value = ([t[i] for t in tokens] for i in (0, 1))
    lengths = [len(own) for own, _, _ in rollouts]
    advantage, returns = batched_gae(
        reward, value, lengths, gamma=gamma, lam=[x[1] for x in rollouts], bootstrap=[x[2] for x in rollouts]
    )
    start = 0
    for own, lam, bootstrap in rollouts:
        alone = gae([t[0] for t in own], [t[1] for t in own], gamma=gamma, lam=lam, bootstrap=bootstrap)
        place = slice(start, start + len(own))
        assert advantage[place].tolist() == alone[0].tolist()
        assert returns[place].tolist() == alone[1].tolist()
        start = place.stop


@pytest.mark.parametrize(
    ("length", "lam"), [(100, 0.8), (1000, 0.98), (8000, 0.9975), (20, 0.0), (19, 0.0), (1, 0.0), (0, 0.0)]
)
def test_lambda_that_grows_with_the_length(length, lam):
    assert length_adaptive_lambda(length) == pytest.approx(lam, abs=1e-15)


def test_a_fixed_lambda_forgets_a_score_at_the_end_and_an_adaptive_one_does_not():
    score = [0.0] * 100 + [1.0]
    fixed = gae(score, [0.0] * 101, gamma=1.0, lam=0.95)[0]
    assert fixed[0] == pytest.approx(0.95**100)
    assert fixed[0] == pytest.approx(0.0059, abs=1e-4)
    adaptive = gae(score, [0.0] * 101, gamma=1.0, lam=length_adaptive_lambda(101, alpha=1.0))[0]
    assert adaptive[0] == pytest.approx((100 / 101) ** 100)


def test_refusals():
    with pytest.raises(RecordError, match=r"value is \[1\], wanted \[2\]"):
        gae([1, 2], [1], gamma=1.0, lam=1.0)
    with pytest.raises(RecordError, match="mask"):
        gae([1, 2], [1, 2], gamma=1.0, lam=1.0, mask=[True])
    with pytest.raises(RecordError, match="segment_tokens"):
        segment_gae([1], [1], gamma=1.0, lam=1.0, segment_tokens=0)
    for lengths in ([1], [3, -1]):
        with pytest.raises(RecordError, match="lengths"):
            batched_gae([1, 2], [1, 2], lengths, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match="alpha"):
        length_adaptive_lambda(10, alpha=0.0)
