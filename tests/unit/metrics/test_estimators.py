import itertools
import math

import pytest

from headrace.metrics.estimators import (
    distinct_n,
    length_stats,
    mean_at_n,
    mean_pass_at_k,
    pass_at_k,
    powers_of_two,
    standard_error,
)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(10, 3, 5, 0.916667), (16, 1, 8, 0.5), (4, 2, 2, 0.833333), (5, 0, 3, 0.0), (5, 5, 1, 1.0), (4, 3, 2, 1.0)],
)
def test_pass_at_k_worked_values(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-6)


def test_pass_at_k_is_the_share_of_draws_that_hold_a_pass() -> None:
    for n, c, k in [(6, 2, 3), (7, 1, 4), (5, 3, 2)]:
        draws = list(itertools.combinations([1] * c + [0] * (n - c), k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(any(d) for d in draws) / len(draws))


def test_pass_at_k_does_not_overflow_for_large_n() -> None:
    assert pass_at_k(4096, 1, 2048) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 5), (4, 2, 0)])
def test_pass_at_k_refuses_what_has_no_meaning(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(n, c, k)


def test_means_over_prompts() -> None:
    counts = [(4, 2), (4, 4), (4, 0), (2, 1)]
    assert mean_at_n(counts) == pytest.approx((0.5 + 1 + 0 + 0.5) / 4)
    # k = 4 leaves the prompt with two judged completions out: (1 + 1 + 0) / 3
    assert mean_pass_at_k(counts, 4) == pytest.approx(2 / 3)
    assert mean_at_n([(0, 0), (2, 1)]) == 0.5
    assert math.isnan(mean_at_n([(0, 0)]))


def test_standard_error_takes_prompts_as_the_sample() -> None:
    # shares 1, 0, 1, 0: variance (ddof 1) 1/3, over four prompts
    assert standard_error([(8, 8), (8, 0), (8, 8), (8, 0)]) == pytest.approx(math.sqrt(1 / 3 / 4))
    assert math.isnan(standard_error([(8, 4)]))


def test_powers_of_two() -> None:
    assert powers_of_two(0) == []
    assert powers_of_two(1) == [1]
    assert powers_of_two(12) == [1, 2, 4, 8]
    assert powers_of_two(16) == [1, 2, 4, 8, 16]


def test_distinct_n() -> None:
    # bigrams 12 23 | 12 24: three different of four
    assert distinct_n([[1, 2, 3], [1, 2, 4]], 2) == 0.75
    assert distinct_n([[1, 1, 1, 1]], 1) == 0.25
    assert math.isnan(distinct_n([[1], []], 2))


def test_length_stats() -> None:
    assert length_stats([1, 2, 3, 4, 100]) == {
        "length_mean": 22.0,
        "length_p50": 3.0,
        "length_p99": pytest.approx(96.16),
    }
    assert math.isnan(length_stats([])["length_p99"])
