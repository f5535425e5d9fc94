"""Advantages from rewards alone, GRPO, Dr. GRPO, RLOO and the batch scales, against verl, TRL and polgrad.

Tried with trl 1.16.0, verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from polgrad.advantages import GroupNormConfig, ReinforcePPConfig
from polgrad.advantages import grpo_advantages as polgrad_grpo
from polgrad.advantages import reinforce_pp_advantages as polgrad_rpp
from polgrad.advantages import rloo_advantages as polgrad_rloo
from torch import Tensor
from verl.trainer.ppo.core_algos import (
    compute_grpo_outcome_advantage,
    compute_grpo_vectorized_outcome_advantage,
    compute_rloo_outcome_advantage,
    compute_rloo_vectorized_outcome_advantage,
)

from headrace.advantages.group_relative import group_relative
from tests.peers import trl_side
from tests.peers.batch import assert_close

# Three prompts, unequal groups, in mixed order; the third has equal rewards.
GROUP = np.array([0, 1, 0, 2, 1, 0, 2, 1, 2, 0])
REWARD = torch.tensor([1.0, 0.2, 0.0, 0.7, -1.0, 1.0, 0.7, 0.5, 0.7, 0.25], dtype=torch.float64)
# TRL wants groups of one size, one after the other.
EVEN = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.3, 0.3, 0.3, 0.3, 0.0, 1.0, 2.0, 5.0], dtype=torch.float64)
EVEN_GROUP = np.repeat([0, 1, 2], 4)


def verl(estimator, reward: Tensor = REWARD, group: np.ndarray = GROUP, **keys: object) -> Tensor:
    """The advantage [B] that verl spreads over three response tokens of every row."""
    tokens = torch.zeros(len(reward), 3, dtype=torch.float64)
    tokens[:, -1] = reward
    advantage, _ = estimator(tokens, torch.ones_like(tokens), group, **keys)
    assert (advantage == advantage[:, :1]).all()
    return advantage[:, 0]


def test_grpo_is_verls() -> None:
    assert_close(group_relative(REWARD, GROUP), verl(compute_grpo_outcome_advantage))


def test_dr_grpo_is_verls() -> None:
    ours = group_relative(REWARD, GROUP, scale="none")
    assert_close(ours, verl(compute_grpo_outcome_advantage, norm_adv_by_std_in_grpo=False))


def test_verls_vectorised_grpo_computes_in_float32() -> None:
    """Where rewards differ that costs 1e-7; three times .7 get .012 from it, the rounding of their mean over eps."""
    ours, theirs = group_relative(REWARD, GROUP), verl(compute_grpo_vectorized_outcome_advantage).numpy()
    equal = GROUP == 2
    assert 1e-9 < np.abs(ours - theirs)[~equal].max() < 1e-6
    assert (ours[equal] == 0).all()
    assert np.abs(theirs[equal]).min() > 0.01


def test_grpo_is_trls_with_its_epsilon() -> None:
    """TRL adds 1e-4 to the standard deviation, verl and ours 1e-6."""
    theirs = trl_side.scored(EVEN, group_size=4, scale_rewards="group")["advantages"]
    assert_close(group_relative(EVEN, EVEN_GROUP, eps=1e-4), theirs)
    default = group_relative(EVEN, EVEN_GROUP)
    std = EVEN.reshape(3, 4).std(1).repeat_interleave(4).numpy()
    alive = default != 0
    assert alive.sum() == 7
    # TRL's deviation is right to 1e-8: it corrects its count in float32.
    ratio = default[alive] / theirs.numpy()[alive]
    np.testing.assert_allclose(ratio, ((std + 1e-4) / (std + 1e-6))[alive], rtol=1e-7)


def test_grpo_is_polgrads_in_both_readings_of_the_deviation() -> None:
    for ddof, unbiased in ((1, True), (0, False)):
        config = GroupNormConfig(center=True, scale="std", eps=1e-4, unbiased=unbiased)
        theirs = polgrad_grpo(EVEN, torch.from_numpy(EVEN_GROUP), config)
        assert_close(group_relative(EVEN, EVEN_GROUP, group_ddof=ddof, eps=1e-4), theirs)


def test_dr_grpo_is_trls() -> None:
    theirs = trl_side.scored(EVEN, group_size=4, scale_rewards="none")["advantages"]
    assert_close(group_relative(EVEN, EVEN_GROUP, scale="none"), theirs)


def test_trls_batch_scale_is_our_raw_batch() -> None:
    """It divides by the deviation of the rewards themselves, ScaleRL ('batch') by that of the centred ones."""
    theirs = trl_side.scored(EVEN, group_size=4, scale_rewards="batch")["advantages"]
    assert_close(group_relative(EVEN, EVEN_GROUP, scale="raw_batch", eps=1e-4), theirs)
    centred = EVEN - EVEN.reshape(3, 4).mean(1).repeat_interleave(4)
    scalerl = group_relative(EVEN, EVEN_GROUP, scale="batch", eps=1e-4)
    factor = float((EVEN.std() + 1e-4) / (centred.std(correction=0) + 1e-4))
    assert abs(factor - 1) > 0.05
    assert_close(scalerl, theirs * factor)


@pytest.mark.parametrize("estimator", [compute_rloo_outcome_advantage, compute_rloo_vectorized_outcome_advantage])
def test_rloo_is_verls(estimator) -> None:
    ours = group_relative(REWARD, GROUP, mean="leave_one_out", scale="none")
    assert_close(ours, verl(estimator))


def test_rloo_is_polgrads() -> None:
    ours = group_relative(REWARD, GROUP, mean="leave_one_out", scale="none")
    assert_close(ours, polgrad_rloo(REWARD, torch.from_numpy(GROUP)))


@pytest.mark.parametrize("grouped", [False, True])
def test_polgrads_reinforce_pp_is_a_batch_scale_over_rollouts(grouped: bool) -> None:
    """polgrad normalises one value a rollout, verl and our ``reinforce_pp`` all tokens: a long rollout counts for more.
    The first is a row of ours too: mean group or batch, scale batch with one degree of freedom taken off."""
    config = ReinforcePPConfig(batch_norm=True)
    theirs = polgrad_rpp(REWARD, torch.from_numpy(GROUP) if grouped else None, config=config)
    mean = "group" if grouped else "batch"
    assert_close(group_relative(REWARD, GROUP, mean=mean, scale="batch", batch_ddof=1, eps=1e-8), theirs)


def test_a_lone_rollout() -> None:
    """Ours: no comparison, advantage 0. verl: the raw reward (its vectorised RLOO: 0). polgrad refuses it."""
    reward, group = torch.tensor([1.0, 0.0, 0.6], dtype=torch.float64), np.array([0, 0, 1])
    for mean, scale in (("group", "group"), ("group", "none"), ("leave_one_out", "none")):
        assert group_relative(reward, group, mean=mean, scale=scale)[2] == 0
    assert float(verl(compute_grpo_outcome_advantage, reward, group)[2]) == pytest.approx(0.6, rel=1e-5)
    assert float(verl(compute_rloo_outcome_advantage, reward, group)[2]) == 0.6
    assert float(verl(compute_rloo_vectorized_outcome_advantage, reward, group)[2]) == 0
    for refuses in (polgrad_rloo, partial(polgrad_grpo, config=GroupNormConfig(center=True, scale="std"))):
        with pytest.raises(ValueError, match="at least 2 rewards"):
            refuses(reward, torch.from_numpy(group))


def test_equal_rewards_that_have_no_exact_mean() -> None:
    """0.1 three times: the mean rounds, and what is left over divided by eps is an advantage. Ours is exactly 0."""
    reward, group = torch.full((3,), 0.1, dtype=torch.float64), np.zeros(3, int)
    left_over = verl(compute_grpo_outcome_advantage, reward, group)
    assert (group_relative(reward, group) == 0).all()
    assert 0 < float(left_over.abs().max()) < 1e-9


def test_a_reward_that_could_not_be_judged() -> None:
    """NaN in TRL and in ours: outside the group's statistics, advantage 0."""
    reward = EVEN.clone()
    reward[0] = torch.nan
    theirs = trl_side.scored(reward, group_size=4, scale_rewards="group")["advantages"]
    assert theirs[0] == 0
    assert_close(group_relative(reward, EVEN_GROUP, eps=1e-4), theirs)
