"""Estimators of an evaluation: pure functions of counts, scores and token ids.

``n`` is the number of judged completions of one prompt, ``c`` how many of them passed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of ``k`` completions passes: 1 - C(n-c, k) / C(n, k).

    The unbiased estimator of Chen et al. 2021 (arXiv 2107.03374, section 2.1) for one prompt; 1 when fewer than k
    completions failed.

    >>> round(pass_at_k(10, 3, 5), 6), pass_at_k(16, 1, 8), round(pass_at_k(4, 2, 2), 6)
    (0.916667, 0.5, 0.833333)
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n; found n {n}, c {c}, k {k}")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """pass@k averaged over prompts given as (n, c); prompts with fewer than k judged completions are left out."""
    values = [pass_at_k(n, c, k) for n, c in counts if n >= k]
    return float(np.mean(values)) if values else math.nan


def mean_at_n(counts: Sequence[tuple[int, int]]) -> float:
    """Mean over prompts of the share of their completions that passed; NaN without a judged completion."""
    shares = [c / n for n, c in counts if n > 0]
    return float(np.mean(shares)) if shares else math.nan


def standard_error(counts: Sequence[tuple[int, int]]) -> float:
    """Standard error of ``mean_at_n``: completions of one prompt are not independent, so prompts are the sample.

    Standard deviation (ddof 1) of the prompts' shares over the root of their number; NaN for fewer than two prompts.
    """
    shares = [c / n for n, c in counts if n > 0]
    return float(np.std(shares, ddof=1) / math.sqrt(len(shares))) if len(shares) > 1 else math.nan


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4, ... up to ``n``: the k of pass@k."""
    return [1 << i for i in range(n.bit_length()) if n > 0]


def distinct_n(sequences: Sequence[Sequence[Hashable]], n: int) -> float:
    """Different n-grams over all n-grams, pooled over ``sequences`` (Li et al. 2016, arXiv 1510.03055).

    Longer text repeats more, so compare it at equal lengths only. NaN when no sequence has n tokens.
    """
    if n < 1:
        raise ValueError(f"n-grams need n >= 1; found {n}")
    grams = [tuple(s[i : i + n]) for s in sequences for i in range(len(s) - n + 1)]
    return len(set(grams)) / len(grams) if grams else math.nan


def length_stats(lengths: Sequence[int]) -> dict[str, float]:
    """``length_mean``, ``length_p50`` and ``length_p99`` in tokens (percentiles interpolated linearly)."""
    if not lengths:
        return {"length_mean": math.nan, "length_p50": math.nan, "length_p99": math.nan}
    p50, p99 = np.percentile(lengths, [50, 99])
    return {"length_mean": float(np.mean(lengths)), "length_p50": float(p50), "length_p99": float(p99)}
