"""Clip-Cov and KL-Cov (arXiv 2505.22617): which tokens are picked, and what happens to them."""

import math

import pytest
import torch

from headrace.errors import RecordError
from headrace.objectives.covariance import clip_cov, clip_cov_selection, kl_cov, kl_cov_selection, token_covariance
from headrace.objectives.ppo_clip import ppo_clip
from tests.unit.objectives.tokens import loss_inputs, slope, update_tokens


def test_mean_covariance_of_a_policy_over_three_actions():
    # pi = (.7, .2, .1), A = (1, -.5, .2): ten tokens in these proportions.
    logprob = [math.log(0.7)] * 7 + [math.log(0.2)] * 2 + [math.log(0.1)]
    tokens = update_tokens([1.0] * 10, [1.0] * 7 + [-0.5] * 2 + [0.2], logprob=logprob)
    assert token_covariance(tokens).mean().item() == pytest.approx(0.362347, abs=1e-6)


def spread(covariances, noise=None):
    """Tokens of these covariances: pairs at log pi +-1 and advantage +-c, so that both means are 0 and each half of a
    pair has covariance c."""
    logprob = [sign - 1.0 for _ in covariances for sign in (1, -1)]
    advantage = [sign * c for c in covariances for sign in (1, -1)]
    noise = None if noise is None else [n for n in noise for _ in range(2)]
    return update_tokens([1.0] * len(logprob), advantage, logprob=logprob, noise=noise)


def test_construction():
    assert token_covariance(spread([0.5, 3.0])).tolist() == pytest.approx([0.5, 0.5, 3.0, 3.0])


def test_random_pick_is_by_noise_among_the_eligible():
    tokens = spread([0.5, 1.0, 3.0, 5.0, 5.5], noise=[0.0, 0.3, 0.2, 0.4, 0.1])
    figures = clip_cov_selection(tokens, frac=0.4)  # 4 of 10, both ends of [1, 5] included
    assert figures.selected.tolist() == [False, False, True, True, True, True, False, False, False, False]
    assert figures.stats["covariance"] == pytest.approx(3.0)
    assert figures.stats["covariance_selected"] == pytest.approx(2.0)
    assert figures.stats["selected_frac"] == pytest.approx(0.4)


def test_pick_is_at_least_one_and_at_most_the_eligible():
    assert clip_cov_selection(spread([0.5, 2.0])).selected.sum() == 1
    assert clip_cov_selection(spread([0.5, 2.0]), frac=0.9).selected.sum() == 2
    assert clip_cov_selection(spread([0.5, 0.6]), frac=0.9).selected.sum() == 0


def test_largest_covariances_are_picked_for_the_penalty():
    selected = kl_cov_selection(spread([0.5, 9.0, -3.0, 2.0]), frac=0.5).selected
    assert selected.tolist() == [False, False, True, True, False, False, True, True]
    assert kl_cov_selection(spread([0.5, 9.0, -3.0])).selected.sum() == 1


@pytest.mark.parametrize(("frac", "count"), [(0.29, 29), (2e-3, 1)])
def test_count_does_not_suffer_from_round_off(frac, count):
    assert kl_cov_selection(update_tokens([1.0] * 100, [0.0] * 100), frac=frac).selected.sum() == count


def test_no_tokens_no_selection():
    for select in (clip_cov_selection, kl_cov_selection):
        figures = select(update_tokens([], []))
        assert figures.selected.shape == (0,)
        assert figures.stats == {}


def test_picked_tokens_keep_their_value_and_lose_their_gradient():
    selected = torch.tensor([True, False, False])
    x = loss_inputs([0.1, 0.1, 0.5], [1.0, 1.0, 1.0], selected=selected)
    loss, plain = clip_cov(x, clip_low=0.2, clip_high=0.2), ppo_clip(x, clip_low=0.2, clip_high=0.2)
    assert loss.value.tolist() == plain.value.tolist()
    assert slope(loss, x) == pytest.approx([0.0, -math.exp(0.1), 0.0])
    assert loss.stats["selected"].tolist() == [1, 0, 0]
    assert loss.stats["clip_high"].tolist() == [0, 0, 1]


def test_penalty_is_on_the_picked_tokens_and_nothing_is_clipped():
    selected = torch.tensor([True, True, False, False])
    x = loss_inputs([0.5, -0.5, 2.0, -0.5], [1.0, 1.0, 1.0, -1.0], selected=selected)
    loss = kl_cov(x, coef=2.0)
    up, down = math.exp(0.5), math.exp(-0.5)
    assert loss.value.tolist() == pytest.approx([1 - up, 1 - down, -math.exp(2), down])
    assert slope(loss, x) == pytest.approx([2 - up, -2 - down, -math.exp(2), down])


@pytest.mark.parametrize("kernel", [lambda x: clip_cov(x, clip_low=0.2, clip_high=0.2), kl_cov])
def test_the_selection_must_be_there(kernel):
    with pytest.raises(RecordError, match="needs the loss input selected"):
        kernel(loss_inputs([0.0], [1.0]))
