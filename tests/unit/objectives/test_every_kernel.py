"""What holds for every objective: slow loops written from the papers, gradients, and the edges."""

import math

import numpy as np
import pytest
import torch

from headrace.objectives.inputs import LossInputs
from headrace.objectives.objective import AdaptiveState, build_objective
from headrace.objectives.table import LOSSES
from headrace.objectives.update_figures import UpdateTokens
from tests.unit.objectives.sections import ENTROPY, KL, SECTIONS, algorithm
from tests.unit.objectives.tokens import tensor

STATE = AdaptiveState()


def test_every_row_has_a_section_here():
    assert set(SECTIONS) == set(LOSSES)


def random_tokens(seed, lengths=(5, 1, 7, 3, 4)):
    rng = np.random.default_rng(seed)
    size, segment = sum(lengths), np.repeat(np.arange(len(lengths)), lengths)
    logprob = -rng.random(size) * 3
    return {
        "logprob": torch.from_numpy(logprob),
        "anchor_logprob": torch.from_numpy(logprob - rng.normal(0, 0.4, size)),
        "advantage": torch.from_numpy(rng.normal(size=len(lengths))[segment]),
        "segment": torch.from_numpy(segment),
    }


def loss_of(objective, tokens, **extra):
    """Figures of all tokens, then the loss of all tokens."""
    noise = torch.linspace(0.99, 0.0, len(tokens["logprob"]), dtype=torch.float64)
    figures = objective.figures(UpdateTokens(**{k: v.detach() for k, v in tokens.items()}, noise=noise))
    x = LossInputs(**tokens, selected=figures.selected, **extra)
    return objective.loss(x, figures, STATE), figures


def slow(name, keys, figures, lp, old, adv, segment, t):
    """The loss of token ``t`` with nothing but loops and ``math``."""
    a, r = adv[t], math.exp(lp[t] - old[t])

    def clipped(ratio, low, high):
        return -min(ratio * a, min(max(ratio, low), high) * a)

    mates = [i for i, s in enumerate(segment) if s == segment[t]]
    if name in ("ppo_clip", "clip_cov"):
        value = clipped(r, 1 - keys["clip_low"], 1 + keys["clip_high"])
        return min(value, -a * 3.0) if name == "ppo_clip" and a < 0 else value
    if name == "cispo":
        return -min(r, 4.0) * a * lp[t]
    if name == "gspo":
        product = math.prod(math.exp(lp[i] - old[i]) for i in mates)
        return clipped(product ** (1 / len(mates)), 1 - keys["clip_low"], 1 + keys["clip_high"])
    if name == "bapo":
        return clipped(r, figures.values["ratio_min"], figures.values["ratio_max"])
    if name == "bapo_balanced":
        balance = figures.values["balance"]
        if a > 0:
            return -2 * balance * r * a if r < 1.2 else 0.0
        return -2 * (1 - balance) * r * a if r > 0.8 else 0.0
    if name == "reinforce":
        return -a * lp[t]
    if name == "gmpo":
        cut = [lp[i] - old[i] for i in mates]
        cut = [min(d, 0.4) if a > 0 else max(d, -0.4) for d in cut]
        return -a * math.exp(sum(cut) / len(mates))
    if name == "sapo":
        tau = 1.0 if a > 0 else 1.05
        return -a * 4 / tau / (1 + math.exp(-tau * (r - 1)))
    mean_lp, mean_a = sum(lp) / len(lp), sum(adv) / len(adv)
    ranked = sorted(range(len(lp)), key=lambda i: -(lp[i] - mean_lp) * (adv[i] - mean_a))
    return -a * r + (abs(lp[t] - old[t]) if t in ranked[: len(lp) // 10] else 0.0)


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_a_slow_loop(name, seed):
    tokens = random_tokens(seed)
    loss, figures = loss_of(build_objective(algorithm(name)), tokens)
    lists = [tokens[key].tolist() for key in ("logprob", "anchor_logprob", "advantage", "segment")]
    expected = [slow(name, SECTIONS[name], figures, *lists, t) for t in range(len(lists[0]))]
    assert loss.value.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", [n for n in SECTIONS if n not in ("cispo", "clip_cov")])
def test_gradient_by_finite_differences(name):
    """Not of the two whose gradient is on purpose not that of their value (each has a test of its own)."""
    tokens, objective = random_tokens(7), build_objective(algorithm(name, kl=KL, entropy=ENTROPY))
    reference, entropy = tokens["logprob"] - 0.3, tensor(range(20)).requires_grad_()
    _, figures = loss_of(objective, tokens, reference_logprob=reference, entropy=entropy)

    def value(logprob, entropy):
        x = LossInputs(
            **(tokens | {"logprob": logprob}),
            selected=figures.selected,
            reference_logprob=reference,
            entropy=entropy,
        )
        return objective.loss(x, figures, STATE).value

    leaf = tokens["logprob"].clone().requires_grad_()
    assert torch.autograd.gradcheck(value, (leaf, entropy), eps=1e-7, atol=1e-6)


@pytest.mark.parametrize("name", SECTIONS)
def test_no_tokens_no_loss_and_no_nan(name):
    """A micro-batch all of whose tokens are masked: empty figures, so that no mean is taken over nothing."""
    tokens = {key: value[:0] for key, value in random_tokens(0).items()}
    tokens["logprob"].requires_grad_()
    objective = build_objective(algorithm(name, kl=KL))
    loss, figures = loss_of(objective, tokens, reference_logprob=tokens["anchor_logprob"])
    assert loss.value.shape == (0,)
    assert all(stat.shape == (0,) for stat in loss.stats.values())
    assert all(math.isfinite(v) for v in (*figures.values.values(), *figures.stats.values()))
    loss.value.sum().backward()
    assert tokens["logprob"].grad.shape == (0,)


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("far", [800.0, -800.0, math.inf])
@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
def test_overflowing_log_ratio_is_bounded_and_counted(name, far, advantage):
    tokens = {
        "logprob": tensor([-1.0, -1.0]).requires_grad_(),
        "anchor_logprob": tensor([-1.0 - far, -1.0]),
        "advantage": tensor([advantage, advantage]),
        "segment": torch.tensor([0, 1]),
    }
    loss, figures = loss_of(build_objective(algorithm(name)), tokens)
    loss.value.sum().backward()
    assert torch.isfinite(loss.value).all()
    assert torch.isfinite(tokens["logprob"].grad).all()
    assert all(math.isfinite(v) for v in (*figures.values.values(), *figures.stats.values()))
    if name != "reinforce":
        assert loss.stats["log_ratio_clamped"].tolist() == [1, 0]
    if name not in ("reinforce", "cispo"):  # these two have no gradient through the ratio
        assert tokens["logprob"].grad[0] == 0.0


@pytest.mark.parametrize("name", [n for n in SECTIONS if n != "kl_cov"])
def test_without_advantage_there_is_no_loss(name):
    """kl_cov alone still pulls, on the tokens it picks."""
    tokens = random_tokens(1)
    tokens |= {"advantage": torch.zeros_like(tokens["advantage"]), "logprob": tokens["logprob"].requires_grad_()}
    loss, _ = loss_of(build_objective(algorithm(name)), tokens)
    loss.value.sum().backward()
    assert not loss.value.any()
    assert not tokens["logprob"].grad.any()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_correction_weight_of_zero_takes_a_token_out(name):
    tokens = random_tokens(2)
    tokens["logprob"].requires_grad_()
    weight = torch.ones(20, dtype=torch.float64)
    weight[:5] = 0.0  # the first sequence
    loss, _ = loss_of(build_objective(algorithm(name)), tokens, correction_weight=weight)
    loss.value.sum().backward()
    assert not loss.value[:5].any()
    assert not tokens["logprob"].grad[:5].any()
    assert tokens["logprob"].grad[5:].any()


@pytest.mark.parametrize("name", SECTIONS)
def test_statistics_are_detached_and_one_a_token(name):
    tokens = random_tokens(3)
    tokens["logprob"].requires_grad_()
    loss, _ = loss_of(build_objective(algorithm(name)), tokens)
    assert all(stat.shape == (20,) and not stat.requires_grad for stat in loss.stats.values())
