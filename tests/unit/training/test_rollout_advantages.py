"""Advantages the trainer made, as means over rollouts."""

import numpy as np
import pytest
import torch

from headrace.config.algorithm import AlgorithmSection, KLSection, ReinforcePP
from headrace.training.prepare import Prepared
from headrace.training.ranks import Ranks
from headrace.training.rollout_advantages import makes_advantages, mean_advantages
from tests.unit.training.thread_ranks import thread_ranks, together


def prepared(segment, advantage):
    value = torch.tensor(advantage)
    return Prepared(
        behaviour=value,
        advantage=value,
        weight=value,
        segment=torch.tensor(segment),
        start=None,
        reference=None,
        correction=None,
    )


# Rollout 0: 1, 2, 6 over two micro-batches; 1: -1; 2: no token; 3: 0.5, -0.5.
FIRST = prepared([0, 0, 3], [1.0, 2.0, 0.5])
SECOND = prepared([1, 0, 3], [-1.0, 6.0, -0.5])


def test_a_rollout_has_the_mean_over_its_tokens_wherever_they_lie():
    np.testing.assert_array_equal(mean_advantages([FIRST, SECOND], 4, Ranks()), np.float32([3.0, -1.0, np.nan, 0.0]))


def test_tokens_of_all_ranks_count():
    shares = zip(thread_ranks(2), (FIRST, SECOND), strict=True)
    for found in together(lambda share: mean_advantages([share[1]], 4, share[0]), list(shares)):
        np.testing.assert_array_equal(found, np.float32([3.0, -1.0, np.nan, 0.0]))


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (AlgorithmSection(), False),
        (AlgorithmSection(kl=KLSection(into="loss")), False),
        (AlgorithmSection(kl=KLSection(into="reward")), True),
        (AlgorithmSection(advantage=ReinforcePP(name="reinforce_pp")), True),
    ],
)
def test_who_makes_the_advantages(algorithm, expected):
    assert makes_advantages(algorithm) is expected


def test_a_step_answers_with_the_advantages_it_made(make_trainer, make_recipe, make_batch, make_groups):
    """REINFORCE++ without discount: the reward, shifted and scaled to mean 0 and deviation 1 over all tokens."""
    recipe = make_recipe()
    algorithm = recipe.algorithm.model_copy(update={"advantage": ReinforcePP(name="reinforce_pp")})
    groups = make_groups()
    result = make_trainer(recipe.model_copy(update={"algorithm": algorithm})).step(make_batch(groups))
    tokens = [r.verdict.reward for g in groups for r in g.rollouts for _ in range(r.num_trainable)]
    rewards = np.array([r.verdict.reward for g in groups for r in g.rollouts])
    expected = (rewards - np.mean(tokens)) / np.std(tokens, ddof=1)
    np.testing.assert_allclose(result.advantage, expected, rtol=1e-6)


def test_a_step_that_made_none_answers_with_none(make_trainer, make_batch):
    assert make_trainer().step(make_batch()).advantage is None
