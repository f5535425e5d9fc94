"""Advantages token by token, GAE and REINFORCE++, and whitening, against verl and polgrad.

Tried with verl 0.9.1, polgrad 0.2.1, torch 2.13.0.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from polgrad.advantages import GAEConfig
from polgrad.advantages import gae as polgrad_gae
from polgrad.advantages import whiten as polgrad_whiten
from torch import Tensor
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.core_algos import (
    compute_gae_advantage_return,
    compute_reinforce_plus_plus_baseline_outcome_advantage,
    compute_reinforce_plus_plus_outcome_advantage,
)
from verl.utils.torch_functional import masked_whiten

from headrace.advantages.gae import batched_gae, gae, segment_gae
from headrace.advantages.reinforce_pp import reinforce_pp
from headrace.advantages.whiten import whiten
from tests.peers.batch import FULL, Batch, assert_close, make_batch

DISCOUNTS = [(1.0, 1.0), (1.0, 0.95), (0.9, 0.8), (0.5, 0.0)]


def by_rows(batch: Batch, gamma: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Our advantages and returns [T], rollout by rollout; rewards are ``advantage``, values are ``old``, both with junk
    at the masked positions."""
    advantages, returns = [], []
    for row in range(len(batch.mask)):
        keep = batch.mask[row].numpy()
        a, r = gae(batch.advantage[row].numpy(), batch.old[row].numpy(), gamma=gamma, lam=lam, mask=keep)
        advantages.append(a[keep])
        returns.append(r[keep])
    return np.concatenate(advantages), np.concatenate(returns)


def verl_gae(batch: Batch, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    return compute_gae_advantage_return(batch.advantage, batch.old, batch.mask.double(), gamma, lam)


@pytest.mark.parametrize(("gamma", "lam"), DISCOUNTS)
def test_gae_is_verls_over_gaps_and_whitened(gamma: float, lam: float) -> None:
    batch = make_batch()
    advantage, returns = by_rows(batch, gamma, lam)
    whitened, verl_returns = verl_gae(batch, gamma, lam)
    assert_close(returns, batch.flat(verl_returns))
    assert_close(whiten(advantage), batch.flat(whitened))


@pytest.mark.parametrize(("gamma", "lam"), DISCOUNTS)
def test_gae_is_polgrads(gamma: float, lam: float) -> None:
    batch = make_batch(lengths=FULL, gaps=False)
    config = GAEConfig(gamma=gamma, lam=lam)
    advantage, returns = polgrad_gae(batch.advantage, batch.old, config=config, response_mask=batch.mask)
    ours_advantage, ours_returns = by_rows(batch, gamma, lam)
    assert_close(ours_advantage, batch.flat(advantage))
    assert_close(ours_returns, batch.flat(returns))


def test_gae_of_the_whole_batch_and_in_pieces() -> None:
    batch = make_batch()
    _, verl_returns = verl_gae(batch, 0.9, 0.8)
    reward, value = batch.flat(batch.advantage).numpy(), batch.flat(batch.old).numpy()
    _, returns = batched_gae(reward, value, batch.lengths.numpy(), gamma=0.9, lam=0.8)
    assert_close(returns, batch.flat(verl_returns))
    row = batch.mask[3]
    _, pieces = segment_gae(
        batch.advantage[3, row].numpy(), batch.old[3, row].numpy(), gamma=0.9, lam=0.8, segment_tokens=5
    )
    assert_close(pieces, verl_returns[3, row])


def test_polgrad_refuses_gaps() -> None:
    batch = make_batch(lengths=FULL)
    with pytest.raises(ValueError, match="right-padded"):
        polgrad_gae(batch.advantage, batch.old, config=GAEConfig(gamma=1.0, lam=1.0), response_mask=batch.mask)


def test_whitening() -> None:
    batch = make_batch()
    ours = whiten(batch.flat(batch.advantage).numpy())
    assert_close(ours, batch.flat(masked_whiten(batch.advantage, batch.mask.double())))
    full = make_batch(lengths=FULL)
    assert_close(whiten(full.flat(full.advantage).numpy()), full.flat(polgrad_whiten(full.advantage, full.mask)))


def test_whitening_one_token() -> None:
    """verl refuses a single token, ours gives it 0: a batch of one token has nothing to say."""
    assert whiten([0.7]).tolist() == [0.0]
    with pytest.raises(ValueError, match="division by zero"):
        masked_whiten(torch.tensor([[0.7, 0.0]]), torch.tensor([[1.0, 0.0]]))


def scores(batch: Batch) -> tuple[Tensor, Tensor]:
    """One score a rollout [B], and the same on its last trainable token [B, W]."""
    place = torch.where(batch.mask, torch.arange(batch.mask.shape[1]), -1).max(1).values
    tokens = torch.zeros_like(batch.old)
    filled = batch.lengths > 0
    tokens[filled, place[filled]] = batch.row_advantage[filled]
    return batch.row_advantage, tokens


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("coef", [0.0, 0.1])
def test_reinforce_pp_is_verls(gamma: float, coef: float) -> None:
    batch = make_batch()
    score, tokens = scores(batch)
    k1 = batch.old - batch.reference
    rewards = torch.where(batch.mask, tokens - coef * k1, 0.0)
    theirs, _ = compute_reinforce_plus_plus_outcome_advantage(rewards, batch.mask.double(), AlgoConfig(gamma=gamma))
    ours = reinforce_pp(score.numpy(), batch.lengths.numpy(), kl=batch.flat(k1).numpy(), kl_coef=coef, gamma=gamma)
    assert_close(ours, batch.flat(theirs))


def test_reinforce_pp_baseline_is_verls() -> None:
    batch = make_batch(lengths=FULL)
    score, tokens = scores(batch)
    theirs, _ = compute_reinforce_plus_plus_baseline_outcome_advantage(
        tokens, batch.mask.double(), batch.group.tolist()
    )
    ours = reinforce_pp(score.numpy(), batch.lengths.numpy(), group=batch.group.numpy())
    assert_close(ours, batch.flat(theirs))


def test_reinforce_pp_baseline_of_a_lone_rollout() -> None:
    """verl sets the mean of a group of one to 0, so its reward goes on unchanged; ours subtracts it: 0 before the
    whitening."""
    mask = torch.ones(3, 1, dtype=torch.float64)
    reward = torch.tensor([[1.0], [0.0], [0.6]], dtype=torch.float64)
    theirs, _ = compute_reinforce_plus_plus_baseline_outcome_advantage(reward, mask, [0, 0, 1])
    ours = reinforce_pp(reward[:, 0].numpy(), [1, 1, 1], group=[0, 0, 1])
    assert_close(ours, whiten([0.5, -0.5, 0.0]))
    assert_close(theirs[:, 0], whiten([0.5, -0.5, 0.6]))
