import numpy as np
import pytest
import torch

from headrace.objectives.inputs import TokenLoss
from headrace.training.metrics import StepMeter
from headrace.training.optimizer import UpdateOutcome
from tests.unit.training.thread_ranks import thread_ranks, together


def test_means_are_over_tokens_of_all_micro_batches():
    meter = StepMeter()
    for ratios in ([0.5, 1.0, 1.5], [2.0]):
        values = torch.tensor(ratios)
        stats = {"ratio": values, "clip_low": (values < 0.8).float(), "clip_high": (values > 1.2).float()}
        loss = TokenLoss(value=values, stats=stats)
        meter.add_tokens(loss, update=0, logprob=values, behaviour_ratio=values, entropy=values * 2, advantage=-values)
    meter.add_lag(np.array([0, 1, 2, 5], np.int32))
    meter.add_mismatch(torch.tensor([0.1, -0.3]))
    meter.add_update(0.5, UpdateOutcome(applied=True, grad_norm=2.0, lr=0.1, update_norm=0.01))
    metrics = meter.result()
    assert metrics["loss/ratio_mean"] == pytest.approx(1.25)
    assert metrics["loss/ratio_p50"] == pytest.approx(1.25)
    assert metrics["loss/ratio_max"] == 2.0
    assert (metrics["loss/clip_frac_low"], metrics["loss/clip_frac_high"]) == (0.25, 0.5)
    assert metrics["loss/entropy"] == pytest.approx(2.5)
    assert metrics["loss/advantage_abs_mean"] == pytest.approx(1.25)
    assert (metrics["rollout/lag_mean"], metrics["rollout/lag_max"]) == (2.0, 5.0)
    assert metrics["loss/mismatch_kl"] == pytest.approx(-0.1)
    assert metrics["loss/mismatch_abs_max"] == pytest.approx(0.3)
    assert (metrics["optim/grad_norm"], metrics["optim/lr"], metrics["optim/update_norm"]) == (2.0, 0.1, 0.01)


def test_no_token_means_no_metric_and_never_nan():
    meter = StepMeter()
    empty = torch.zeros(0)
    meter.add_tokens(
        TokenLoss(value=empty, stats={"ratio": empty}),
        update=0,
        behaviour_ratio=empty,
        entropy=empty,
        advantage=empty,
        logprob=empty,
    )
    meter.add_mismatch(empty)
    meter.add_update(0.0, UpdateOutcome(applied=False, grad_norm=float("nan"), lr=0.1, update_norm=0.0))
    metrics = meter.result()
    assert not any(name.startswith("loss/ratio") for name in metrics)
    assert metrics["trainer/num_nonfinite_updates"] == metrics["trainer/num_skipped_updates"] == 1
    assert all(np.isfinite(v) for v in metrics.values())


def token_loss(surrogate):
    return TokenLoss(value=surrogate, stats={"surrogate": surrogate})


def add(meter, update, surrogate, advantage):
    size, advantage = torch.tensor(surrogate), torch.tensor(advantage)
    flat = torch.full_like(size, -1.0)
    one = torch.ones_like(size)
    meter.add_tokens(
        token_loss(size), update=update, behaviour_ratio=one, entropy=one, advantage=advantage, logprob=flat
    )


def two_updates():
    """Positive shares 1/4 and 6/8; of all tokens together 7/12."""
    meter = StepMeter()
    add(meter, 0, [1.0, 3.0], [1.0, -1.0])
    add(meter, 1, [6.0], [2.0])
    add(meter, 1, [2.0], [-5.0])
    return meter


def test_figures_of_updates_are_averaged_over_updates_and_never_over_micro_batches():
    metrics = two_updates().result()
    assert metrics["loss/positive_share"] == pytest.approx(0.5)
    assert metrics["loss/advantage_abs_max"] == 5.0
    assert metrics["loss/advantage_outlier_frac"] == 0.25


def test_what_the_objective_says_of_its_updates_stands():
    meter = two_updates()
    for share in (0.4, 0.5):
        outcome = UpdateOutcome(applied=True, grad_norm=2.0, lr=0.1, update_norm=0.01)
        meter.add_update(0.5, outcome, {"positive_share": share, "bound_low": 0.6})
    metrics = meter.result()
    assert metrics["loss/positive_share"] == pytest.approx(0.45)
    assert metrics["loss/bound_low"] == pytest.approx(0.6)


def test_over_ranks_an_update_is_still_one_update():
    def work(ranks):
        meter = StepMeter()
        meter.add_lag(np.array([3, 1], np.int32))
        if ranks.rank == 0:
            add(meter, 0, [1.0], [1.0])
            add(meter, 1, [6.0], [2.0])
        else:
            add(meter, 0, [3.0], [-1.0])
            add(meter, 1, [2.0], [-5.0])
        return meter.merged(ranks).result()

    metrics = together(work, thread_ranks(2))[0]
    assert metrics["loss/positive_share"] == pytest.approx(0.5)
    assert metrics["loss/advantage_abs_mean"] == pytest.approx(9 / 4)
    assert metrics["rollout/lag_mean"] == 2.0
