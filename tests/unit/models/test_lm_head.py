"""The tiled head against full logits, values and gradients, in every dtype combination it is used in."""

import math

import pytest
import torch

from headrace.models import lm_head
from headrace.models.lm_head import head_logprobs


def case(tokens=50, hidden=24, vocab=97, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(tokens, hidden, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(vocab, hidden, generator=generator, dtype=torch.float64).to(dtype)
    target = torch.randint(vocab, (tokens,), generator=generator)
    slope = torch.randn(tokens, generator=generator, dtype=torch.float64)
    return states, weight, target, slope


def full(states, weight, target, temperature=1.0):
    """What the tiles must give: all logits at once, in the widest dtype."""
    logits = states.double() @ weight.double().t() / temperature
    logprobs = logits.log_softmax(-1)
    return logprobs.gather(1, target[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


@pytest.fixture
def small_tiles(monkeypatch):
    """Three vocabulary tiles (the last one short) by several token tiles (the last one short)."""
    monkeypatch.setattr(lm_head, "VOCAB_TILE", 40)
    monkeypatch.setattr(lm_head, "TILE_ELEMENTS", 40 * 16)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.0])
def test_values_and_gradients_in_float64(small_tiles, temperature):
    states, weight, target, slope = case()
    mine = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    logprob, entropy = head_logprobs(*mine, target, temperature=temperature)
    expected, expected_entropy = full(*theirs, target, temperature)
    assert torch.allclose(logprob, expected, rtol=0, atol=1e-12)
    assert torch.allclose(entropy, expected_entropy, rtol=0, atol=1e-12)
    assert not entropy.requires_grad
    (logprob * slope).sum().backward()
    (expected * slope).sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        assert (a.grad - b.grad).norm() <= 1e-12 * b.grad.norm()


def test_gradient_by_finite_differences(small_tiles):
    states, weight, target, _ = case(tokens=7, hidden=5, vocab=50)
    inputs = (states.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(lambda h, w: head_logprobs(h, w, target, temperature=0.7).logprob, inputs)


def test_a_tied_bf16_head_is_multiplied_in_float32(small_tiles):
    states, weight, target, slope = case(dtype=torch.bfloat16)
    tied = weight.clone().requires_grad_()
    embedded = tied[target]  # the same tensor looked up on the way in
    hidden = states + embedded
    logprob, _ = head_logprobs(hidden, tied, target)
    expected, _ = full(hidden, weight, target)
    assert logprob.dtype == torch.float32
    assert (logprob.double() - expected).abs().max() < 2e-5  # a bf16 product would be off by about 1e-1
    (logprob * slope.float()).sum().backward()
    assert tied.grad.dtype == torch.bfloat16

    reference = weight.double().requires_grad_()
    again = states.double() + reference[target]
    again = again + (hidden.double() - again).detach()  # the same rounded hidden states, with both ways to the weight
    wanted, _ = full(again, reference, target)
    (wanted * slope).sum().backward()
    assert (tied.grad.double() - reference.grad).norm() <= 0.01 * reference.grad.norm()


def test_float32_head_over_bf16_states(small_tiles):
    states, _, target, _ = case(dtype=torch.bfloat16)
    weight = case()[1].float()
    hidden = states.clone().requires_grad_()
    logprob, entropy = head_logprobs(hidden, weight, target)
    expected, expected_entropy = full(states, weight, target)
    assert torch.allclose(logprob.double(), expected, atol=2e-5)
    assert torch.allclose(entropy.double(), expected_entropy, atol=2e-5)
    logprob.sum().backward()
    assert hidden.grad.dtype == torch.bfloat16


def test_a_last_short_tile_is_not_lost(monkeypatch):
    monkeypatch.setattr(lm_head, "TILE_ELEMENTS", 300 * 8)
    states, weight, target, _ = case(tokens=1000, hidden=8, vocab=8, dtype=torch.float32)
    logprob, entropy = head_logprobs(states, weight, target)
    assert (logprob.shape, logprob.dtype, entropy.shape) == ((1000,), torch.float32, (1000,))
    assert torch.allclose(logprob.double(), full(states, weight, target)[0], atol=1e-5)


def test_impossible_tokens_have_no_share_in_the_entropy():
    # Logits 1, 2, -inf: the hidden state picks the column.
    weight = torch.tensor([[1.0], [2.0], [-math.inf]])
    hidden = torch.ones(1, 1, requires_grad=True)
    logprob, entropy = head_logprobs(hidden, weight, torch.tensor([0]))
    assert entropy.item() == pytest.approx(0.582203, abs=1e-6)
    assert logprob.item() == pytest.approx(1 - math.log(math.e + math.e**2), abs=1e-6)


def test_autocast_does_not_reach_the_product():
    states, weight, target, _ = case(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logprob, _ = head_logprobs(states, weight, target)
    assert torch.equal(logprob, head_logprobs(states, weight, target).logprob)


def test_matmul_precision_is_put_back():
    torch.set_float32_matmul_precision("high")
    try:
        states, weight, target, _ = case(dtype=torch.float32)
        head_logprobs(states, weight, target)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_no_token_gives_zero_gradients():
    weight = torch.ones(5, 3, requires_grad=True)
    logprob, _ = head_logprobs(torch.ones(0, 3), weight, torch.zeros(0, dtype=torch.int64))
    logprob.sum().backward()
    assert weight.grad.tolist() == [[0.0] * 3] * 5


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="must be above 0"):
        head_logprobs(torch.ones(1, 2), torch.ones(3, 2), torch.zeros(1, dtype=torch.int64), temperature=temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_entropy_with_gradient(small_tiles, temperature):
    states, weight, target, slope = case()
    bonus = torch.linspace(-1, 2, len(target), dtype=torch.float64)
    mine = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    logprob, entropy = head_logprobs(*mine, target, temperature=temperature, entropy_grad=True)
    expected, expected_entropy = full(*theirs, target, temperature)
    (logprob * slope + entropy * bonus).sum().backward()
    (expected * slope + expected_entropy * bonus).sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        assert (a.grad - b.grad).norm() <= 1e-12 * b.grad.norm()


def test_entropy_gradient_passes_impossible_tokens_over():
    states = torch.ones(1, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([[0.0, 0.0], [math.log(3), 0.0], [-torch.inf, 0.0]], dtype=torch.float64)
    _, entropy = head_logprobs(states, weight, torch.tensor([0]), entropy_grad=True)
    # p = (1/4, 3/4, 0): dH/dz = -p (log p + H), the impossible token's 0
    assert entropy.item() == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))


def test_a_temperature_for_each_token(small_tiles):
    states, weight, target, slope = case()
    temperature = torch.linspace(0.5, 2, len(target), dtype=torch.float64)
    mine = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    theirs = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
    logprob, entropy = head_logprobs(*mine, target, temperature=temperature)
    expected, expected_entropy = full(*theirs, target, temperature[:, None])
    assert torch.allclose(logprob, expected, rtol=0, atol=1e-12)
    assert torch.allclose(entropy, expected_entropy, rtol=0, atol=1e-12)
    (logprob * slope).sum().backward()
    (expected * slope).sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        assert (a.grad - b.grad).norm() <= 1e-12 * b.grad.norm()
    with pytest.raises(ValueError, match="above 0"):
        head_logprobs(states, weight, target, temperature=temperature - 1)
