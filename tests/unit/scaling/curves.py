"""Curves the tests fit: the first row of the ScaleRL paper's Table 1, noisy and exact."""

import numpy as np

from headrace.scaling.curve import sigmoid

TRUE = {"A": 0.61, "B": 1.92, "C_mid": 2542.0, "R0": 0.25}
COMPUTE = np.concatenate([[0.0], np.linspace(1500, 8000, 50)])
N = 16_000


def exact(compute=COMPUTE, **changes):
    return sigmoid(compute, **(TRUE | changes))


def noisy(seed=0, compute=COMPUTE, **changes):
    return np.random.default_rng(seed).binomial(N, exact(compute, **changes)) / N
