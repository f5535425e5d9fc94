"""kernel x loss weight: no way of cutting an update into micro-batches changes its loss or gradient."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.objectives.inputs import LossInputs
from headrace.objectives.objective import AdaptiveState, build_objective
from headrace.objectives.update_figures import UpdateTokens
from headrace.packing.loss_weights import CONSTANT, LOSS_WEIGHTS, token_weights
from tests.unit.objectives.sections import ENTROPY, KL, SECTIONS, algorithm

RULES = (*LOSS_WEIGHTS, CONSTANT)


@pytest.mark.parametrize(("name", "rule"), list(itertools.product(SECTIONS, RULES)))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.integers(1, 6))
def test_loss_and_gradient_do_not_depend_on_the_split(name, rule, seed, cuts):
    """With the figures of the whole update, a KL penalty and an entropy bonus."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, size=8)
    lengths[0] = 3
    group = np.sort(rng.integers(0, 3, size=8))
    horizon = 10 if rule == CONSTANT else None
    weight = torch.from_numpy(np.repeat(token_weights(rule, lengths, group, horizon=horizon), lengths))
    rollout = np.repeat(np.arange(8), lengths)
    size = len(rollout)
    fixed = {
        "anchor_logprob": torch.from_numpy(-rng.random(size) * 2),
        "advantage": torch.from_numpy(rng.normal(size=8))[rollout],
        "segment": torch.from_numpy(rollout),
    }
    extra = {"reference_logprob": torch.from_numpy(-rng.random(size)), "entropy": torch.from_numpy(rng.random(size))}
    logprob, noise = torch.from_numpy(-rng.random(size)), torch.from_numpy(rng.random(size))
    objective = build_objective(algorithm(name, kl=KL, entropy=ENTROPY))
    figures = objective.figures(UpdateTokens(logprob=logprob, noise=noise, **fixed))
    if figures.selected is not None:
        extra["selected"] = figures.selected

    def run(parts):
        leaf = logprob.clone().requires_grad_()
        total = 0.0
        for part in parts:
            chosen = torch.from_numpy(np.flatnonzero(np.isin(rollout, part)))
            columns = {key: column[chosen] for key, column in (fixed | extra).items()}
            x = LossInputs(logprob=leaf[chosen], **columns)
            loss = (objective.loss(x, figures, AdaptiveState()).value * weight[chosen]).sum()
            loss.backward()
            total += loss.item()
        return total, leaf.grad

    whole, gradient = run([np.arange(8)])
    split, split_gradient = run(np.array_split(rng.permutation(8), cuts))
    assert split == pytest.approx(whole, rel=1e-12, abs=1e-12)
    assert (split_gradient - gradient).norm() <= 1e-12 * max(1.0, gradient.norm())
