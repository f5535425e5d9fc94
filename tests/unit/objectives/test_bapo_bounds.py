"""The search for BAPO's bounds (arXiv 2510.18927 eq. 8, algorithm 1), by hand and against a slow walk."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.objectives.bapo_bounds import bapo_bounds
from tests.unit.objectives.tokens import update_tokens

PAPER = {
    "low_start": 0.6,
    "low_end": 0.9,
    "low_step": 0.02,
    "high_start": 1.2,
    "high_end": 3.0,
    "high_step": 0.05,
}
# Positive part min(1.5, high) + .8; negative part max(.5, low) + max(.69, low) + 2.
TOKENS = update_tokens([1.5, 0.8, 0.5, 0.69, 2.0], [1.0, 1.0, -1.0, -1.0, -1.0])


def search(tokens=TOKENS, **keys):
    return bapo_bounds(tokens, **(PAPER | keys))


def bounds(**keys):
    values = search(**keys).values
    return values["ratio_min"], values["ratio_max"]


def share_at(low, high, contribution="surrogate", tokens=TOKENS):
    fixed = {"low_start": low, "low_end": low, "high_start": high, "high_end": high}
    return search(tokens, target_share=0.99, contribution=contribution, **fixed).stats["positive_share"]


def test_target_met_at_the_start_leaves_the_bounds_alone():
    found = search(target_share=0.3)
    assert found.values == {"ratio_min": 0.6, "ratio_max": 1.2}
    assert found.stats["positive_share"] == pytest.approx(2.0 / (2.0 + 3.29))


def test_upper_bound_moves_in_steps_until_the_share_is_there():
    # (high + .8) / (high + .8 + 3.29) >= .41 first holds above high = 1.486.
    found = search(target_share=0.41)
    assert found.values["ratio_max"] == pytest.approx(1.5)
    assert found.values["ratio_min"] == 0.6
    assert found.stats == pytest.approx({"bound_low": 0.6, "bound_high": 1.5, "positive_share": 2.3 / 5.59})


def test_raising_the_lower_bound_lowers_the_share_of_surrogates():
    assert share_at(0.6, 1.2) == pytest.approx(2.0 / 5.29)
    assert share_at(0.9, 1.2) == pytest.approx(2.0 / 5.8)


def test_raising_either_bound_raises_the_share_of_active_tokens():
    # At (.6, 1.2) the token at 1.5 and the one at .5 have no gradient: .8 against .69 + 2.
    assert share_at(0.6, 1.2, "active") == pytest.approx(0.8 / 3.49)
    assert share_at(0.9, 1.2, "active") == pytest.approx(0.8 / 2.8)
    assert share_at(0.9, 1.6, "active") == pytest.approx(2.3 / 4.3)


def test_moving_the_lower_bound_first_runs_it_to_its_end_for_nothing():
    # Reached by the upper bound alone, out of reach once the lower one has gone up: 2.3 / (2.3 + .9 + .9 + 2) = .377.
    assert bounds(target_share=0.41, order="high_first") == (0.6, pytest.approx(1.5))
    assert bounds(target_share=0.41, order="low_first") == (0.9, 3.0)


def test_active_contributions_let_the_lower_bound_reach_the_target():
    # Passing .69 silences that negative token: .8 / 2.8 = .286.
    assert bounds(target_share=0.28, order="low_first", contribution="active") == (pytest.approx(0.7), 1.2)


def test_a_share_and_its_ratio_are_the_same_target():
    assert bounds(target_share=0.41 / 0.59, metric="ratio") == bounds(target_share=0.41, metric="share")
    assert bounds(target_share=1.0, metric="ratio") == bounds(target_share=0.5, metric="share")


@pytest.mark.parametrize("order", ["high_first", "low_first"])
def test_ends_are_reached_exactly(order):
    only_negative = update_tokens([1.0, 0.7], [-1.0, -1.0])
    values = bapo_bounds(only_negative, target_share=0.4, order=order, **PAPER).values
    assert values == {"ratio_min": 0.9, "ratio_max": 3.0}
    repeated = 1.2
    while repeated + 0.05 <= 3.0:
        repeated += 0.05
    assert repeated < 3.0  # adding up misses it by round-off


@pytest.mark.parametrize(("high", "found"), [(2.94, 2.95), (2.96, 3.0)])
def test_there_are_36_steps_of_the_upper_bound(high, found):
    # One positive token that is active only below its ratio, against a smaller negative one.
    tokens = update_tokens([high, 1.0], [1.0, -1.0])
    values = bapo_bounds(tokens, target_share=0.5, contribution="active", **PAPER).values
    assert values["ratio_max"] == pytest.approx(found)


def test_there_are_15_steps_of_the_lower_bound():
    for ratio, found in ((0.879, 0.88), (0.881, 0.9)):
        tokens = update_tokens([1.0, ratio], [0.1, -1.0])
        values = bapo_bounds(tokens, target_share=0.5, contribution="active", order="low_first", **PAPER).values
        assert values["ratio_min"] == pytest.approx(found)


@pytest.mark.parametrize(("end", "found"), [("stop", 1.8), ("clamp", 2.0)])
def test_a_step_past_the_end_is_dropped_or_shortened(end, found):
    keys = {"high_end": 2.0, "high_step": 0.3, "low_end": 0.6}
    assert bounds(target_share=0.9, end=end, **keys) == (0.6, pytest.approx(found))


def test_a_search_by_micro_batch_finds_other_bounds():
    ratio, advantage = [1.0] * 6, [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    whole = bapo_bounds(update_tokens(ratio, advantage), target_share=0.4, **PAPER).values
    second = bapo_bounds(update_tokens(ratio[3:], advantage[3:]), target_share=0.4, **PAPER).values
    assert whole == {"ratio_min": 0.6, "ratio_max": 1.2}
    assert second == {"ratio_min": 0.9, "ratio_max": 3.0}


@pytest.mark.parametrize("tokens", [update_tokens([], []), update_tokens([1.3, 0.2], [0.0, 0.0])])
def test_nothing_to_balance(tokens):
    found = bapo_bounds(tokens, target_share=0.6, **PAPER)
    assert found.values == {"ratio_min": 0.6, "ratio_max": 1.2}
    assert found.stats["positive_share"] == 0.5


def walk(ratio, advantage, target, contribution, order):
    """Algorithm 1 with exact counters, one token after the other, by the definition of the clipped surrogate."""

    def share(low, high):
        sums = {True: 0.0, False: 0.0}
        for r, a in zip(ratio, advantage, strict=True):
            clipped = min(max(r, low), high)
            if contribution == "surrogate":
                part = abs(min(r * a, clipped * a))
            else:
                part = abs(r * a) if clipped == r or (a > 0) == (r < low) else 0.0
            sums[a > 0] += part
        return sums[True] / (sums[True] + sums[False])

    low, high = Fraction(6, 10), Fraction(12, 10)
    while share(float(low), float(high)) < target:
        can_high, can_low = high + Fraction(5, 100) <= 3, low + Fraction(2, 100) <= Fraction(9, 10)
        if can_high and (order == "high_first" or not can_low):
            high += Fraction(5, 100)
        elif can_low:
            low += Fraction(2, 100)
        else:
            break
    return float(low), float(high)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from([0.3, 0.4, 0.5, 0.6]),
    contribution=st.sampled_from(["surrogate", "active"]),
    order=st.sampled_from(["high_first", "low_first"]),
)
def test_bounds_are_those_of_a_slow_walk(seed, target, contribution, order):
    generator = torch.Generator().manual_seed(seed)
    ratio = torch.empty(30, dtype=torch.float64).log_normal_(0, 0.6, generator=generator).tolist()
    advantage = (torch.randn(30, generator=generator, dtype=torch.float64) - 0.2).tolist()
    values = bapo_bounds(
        update_tokens(ratio, advantage), target_share=target, contribution=contribution, order=order, **PAPER
    ).values
    expected = walk(ratio, advantage, target, contribution, order)
    assert (values["ratio_min"], values["ratio_max"]) == pytest.approx(expected, abs=1e-9)
