import math

import pytest
import torch
from scipy import stats

from headrace.engines.sampling import BLOCK, sample


def uniforms(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_worked_inverse_distribution() -> None:
    # Probabilities 1/2, 1/4, 0, 1/4: edges 0.5, 0.75, 0.75, 1.
    logits = torch.tensor([[math.log(2.0), 0.0, -math.inf, 0.0]]).expand(5, -1)
    u = torch.tensor([0.1, 0.499, 0.6, 0.751, 1 - 2**-51], dtype=torch.float64)
    token, logprob = sample(logits, None, u)
    assert token.tolist() == [0, 0, 1, 3, 3]
    assert logprob.tolist() == pytest.approx([math.log(0.5)] * 2 + [math.log(0.25)] * 3, abs=1e-6)


def test_temperature_is_a_row_s_own() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]]).expand(3, -1)
    _, logprob = sample(logits, torch.tensor([1.0, 0.5, 0.0]), torch.tensor([0.9, 0.9, 0.1], dtype=torch.float64))
    assert logprob.tolist() == pytest.approx([math.log(3 / 4), math.log(9 / 10), 0.0], abs=1e-6)
    token, _ = sample(logits, torch.tensor([1.0, 0.5, 0.0]), torch.tensor([0.2, 0.2, 0.1], dtype=torch.float64))
    assert token.tolist() == [0, 1, 1]


@pytest.mark.parametrize("width", [96, BLOCK, BLOCK + 1, 3 * BLOCK + 100])
def test_frequencies_follow_the_distribution(width: int) -> None:
    n = 40_000
    logits = torch.randn(width, generator=torch.Generator().manual_seed(1)) * 2
    logits[::7] = -math.inf
    token = torch.cat([sample(logits.expand(4000, -1), None, part)[0] for part in uniforms(n).split(4000)])
    counts = token.bincount(minlength=width).double()
    expected = torch.softmax(logits.double(), -1) * n
    assert counts[::7].sum() == 0
    common = expected >= 5
    observed = torch.cat([counts[common], counts[~common].sum()[None]])
    assert stats.chisquare(observed.numpy(), torch.cat([expected[common], expected[~common].sum()[None]])).pvalue > 1e-3


@pytest.mark.parametrize("width", [10, 2 * BLOCK])
def test_the_ends_of_the_unit_interval_never_reach_an_impossible_token(width: int) -> None:
    logits = torch.full((2, width), -math.inf)
    logits[:, width // 2] = 0.0
    logits[:, width // 2 + 1] = -3.0
    token, logprob = sample(logits, None, torch.tensor([2.0**-51, 1 - 2.0**-51], dtype=torch.float64))
    assert token.tolist() == [width // 2, width // 2 + 1]
    assert torch.isfinite(logprob).all()
