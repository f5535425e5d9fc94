"""kernel x loss weight: no way of cutting an update into micro-batches changes its loss or gradient."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.objectives.inputs import LossInputs
from headrace.objectives.table import build_kernel
from headrace.packing.loss_weights import LOSS_WEIGHTS, token_weights

SECTIONS = (
    {"name": "ppo_clip", "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0},
    {"name": "ppo_clip", "clip_low": 0.2, "clip_high": 0.2, "dual_clip": None},
    {"name": "cispo", "ratio_max": 4.0},
)


@pytest.mark.parametrize(("section", "rule"), list(itertools.product(SECTIONS, LOSS_WEIGHTS)))
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.integers(1, 6))
def test_loss_and_gradient_do_not_depend_on_the_split(section, rule, seed, cuts):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, size=8)
    lengths[0] = 3
    group = np.sort(rng.integers(0, 3, size=8))
    weight = torch.from_numpy(np.repeat(token_weights(rule, lengths, group), lengths))
    rollout = np.repeat(np.arange(8), lengths)
    logprob, anchor = torch.from_numpy(-rng.random(len(rollout))), torch.from_numpy(-rng.random(len(rollout)) * 2)
    advantage = torch.from_numpy(rng.normal(size=8))[rollout]
    kernel = build_kernel(section)

    def run(parts):
        leaf = logprob.clone().requires_grad_()
        total = 0.0
        for part in parts:
            chosen = torch.from_numpy(np.flatnonzero(np.isin(rollout, part)))
            x = LossInputs(
                logprob=leaf[chosen],
                anchor_logprob=anchor[chosen],
                advantage=advantage[chosen],
                segment=torch.from_numpy(rollout)[chosen],
            )
            loss = (kernel(x).value * weight[chosen]).sum()
            loss.backward()
            total += loss.item()
        return total, leaf.grad

    whole, gradient = run([np.arange(8)])
    split, split_gradient = run(np.array_split(rng.permutation(8), cuts))
    assert split == pytest.approx(whole, rel=1e-12, abs=1e-12)
    assert (split_gradient - gradient).norm() <= 1e-12 * max(1.0, gradient.norm())
