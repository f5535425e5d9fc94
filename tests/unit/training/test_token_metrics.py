import math

import numpy as np
import pytest
import torch

from headrace.metrics.names import METRICS
from headrace.objectives.bapo_bounds import bapo_bounds
from headrace.objectives.inputs import LossInputs
from headrace.objectives.objective import AdaptiveState, build_objective
from headrace.objectives.table import LOSSES
from headrace.objectives.update_figures import UpdateTokens
from headrace.training.metrics import StepMeter
from headrace.training.optimizer import UpdateOutcome
from headrace.training.token_metrics import averaged, ess_frac, positive_share, step_metrics, update_metrics

RATIO, ADVANTAGE = [1.5, 1.0, 0.5, 1.1], [1.0, -1.0, -1.0, 2.0]


def shares_of(section):
    """Figures of an update of four tokens, with the ratios and advantages above, as the meter takes them."""
    ratio, advantage = torch.tensor(RATIO, dtype=torch.float64), torch.tensor(ADVANTAGE, dtype=torch.float64)
    logprob = torch.full((4,), -1.0, dtype=torch.float64)
    x = LossInputs(logprob=logprob, anchor_logprob=logprob - ratio.log(), advantage=advantage, segment=torch.arange(4))
    objective = build_objective({"loss": section})
    return update_metrics(
        {**objective.row.kernel(x, **objective.parameters).stats, "logprob": logprob, "advantage": advantage}
    )


def test_effective_sample_share():
    assert ess_frac(np.ones(4)) == 1.0
    assert ess_frac(np.array([1.0, 0, 0, 0])) == 0.25
    assert ess_frac(np.array([1.0, 3.0])) == pytest.approx(16 / 20)


def test_effective_sample_share_of_huge_float32_ratios():
    # e^20 squared is 2.35e17; a float32 sum of such squares keeps only its largest.
    ratio = np.array([np.exp(20.0), *np.ones(3)], np.float32)
    assert ess_frac(ratio) == pytest.approx(0.25, rel=1e-7)


def test_positive_share_by_hand():
    assert positive_share(np.array([1.2, 1.0, 0.8, 2.2]), np.array(ADVANTAGE)) == pytest.approx(3.4 / 5.2)
    assert positive_share(np.array([2.0, 5.0]), np.array([1.0, 0.0])) == 1.0
    assert positive_share(np.array([2.0]), np.array([0.0])) is None
    assert positive_share(np.zeros(0), np.zeros(0)) is None


@pytest.mark.parametrize(
    ("section", "share"),
    [
        # 1.5 is cut at 1.2 where A > 0, .5 raised to .8 where A < 0: 1.2 + 2.2 against 1 + .8
        ({"name": "ppo_clip", "clip_low": 0.2, "clip_high": 0.2}, 3.4 / 5.2),
        # the cap alone, for both signs: 1.2 + 2.2 against 1 + .5
        ({"name": "cispo", "ratio_max": 1.2}, 3.4 / 4.9),
        # sequences of one token: as PPO
        ({"name": "gspo", "clip_low": 0.2, "clip_high": 0.2}, 3.4 / 5.2),
        # the range is in log space: 1.5 is held at e^.4, .5 at e^-.4
        (
            {"name": "gmpo", "clip_low": 0.4, "clip_high": 0.4},
            (math.exp(0.4) + 2.2) / (math.exp(0.4) + 2.2 + 1 + math.exp(-0.4)),
        ),
    ],
)
def test_positive_share_of_clipped_losses(section, share):
    assert shares_of(section)["loss/positive_share"] == pytest.approx(share, abs=1e-12)


def test_a_dual_clip_and_bapo_search_measure_the_same_share():
    tokens = UpdateTokens(
        logprob=torch.tensor(RATIO, dtype=torch.float64).log(),
        anchor_logprob=torch.zeros(4).double(),
        advantage=torch.tensor(ADVANTAGE, dtype=torch.float64),
        segment=torch.arange(4),
        noise=torch.zeros(4).double(),
    )
    fixed = {"low_start": 0.8, "low_end": 0.8, "high_start": 1.2, "high_end": 1.2, "low_step": 0.1, "high_step": 0.1}
    searched = bapo_bounds(tokens, target_share=0.4, **fixed).stats["positive_share"]
    clipped = shares_of({"name": "ppo_clip", "clip_low": 0.2, "clip_high": 0.2, "dual_clip": 1.01})
    assert clipped["loss/positive_share"] == pytest.approx(searched, abs=1e-12)


@pytest.mark.parametrize("section", [{"name": "reinforce"}, {"name": "sapo"}])
def test_a_loss_without_a_clip_has_no_positive_share(section):
    assert "loss/positive_share" not in shares_of(section)


def test_covariance_and_classes_of_an_update_by_hand():
    seen = {
        "logprob": torch.tensor([0.1, 0.2, 0.4, 0.8]).log(),
        "advantage": torch.tensor([1.0, -1.0, 1.0, 1.0]),
        "clip_high": torch.tensor([1.0, 0.0, 0.0, 0.0]),
    }
    # log pi lies 1.5, .5, .5, 1.5 times ln 2 from its mean; A X is 0, -1, 1, 1.
    assert update_metrics(seen) == pytest.approx(
        {
            "loss/entropy_covariance": (0.5 + 0.5 + 1.5) / 4 * math.log(2),
            "loss/prob_split": math.sqrt(0.2 * 0.4),
            "loss/low_prob_low_adv_frac": 0.25,
            "loss/low_prob_high_adv_frac": 0.25,
            "loss/high_prob_low_adv_frac": 0.0,
            "loss/high_prob_high_adv_frac": 0.5,
        },
        abs=1e-6,
    )


def test_an_update_without_advantages_has_a_covariance_of_0_and_no_classes():
    assert update_metrics({"logprob": torch.tensor([-1.0, -2.0]), "advantage": torch.zeros(2)}) == {
        "loss/entropy_covariance": 0.0
    }


def test_quantiles_of_ratios_by_hand():
    # 101 ratios 0, .01, ..., 1: every percentile is one of them.
    found = step_metrics({"ratio": np.arange(101) / 100})
    assert found == pytest.approx(
        {
            "loss/ratio_mean": 0.5,
            "loss/ratio_p01": 0.01,
            "loss/ratio_p50": 0.5,
            "loss/ratio_p99": 0.99,
            "loss/ratio_max": 1.0,
        }
    )


def test_corrections_that_took_tokens_out_are_counted():
    found = step_metrics({"correction": np.array([0.0, 2.0, 1.0, 0.0])})
    assert found == {"loss/correction_mean": 0.75, "loss/correction_zero_frac": 0.5}


def test_a_figure_that_some_updates_lack_is_averaged_over_the_others():
    assert averaged([{"a": 1.0, "b": 4.0}, {"a": 2.0}]) == {"a": 1.5, "b": 4.0}


SECTIONS = {
    "ppo_clip": {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": 3.0},
    "cispo": {"ratio_max": 1.2, "ratio_min": 0.8},
    "bapo": {
        "target_share": 0.4,
        "low_start": 0.6,
        "low_end": 0.9,
        "low_step": 0.02,
        "high_start": 1.2,
        "high_end": 3.0,
        "high_step": 0.05,
    },
    "bapo_balanced": {"ratio_min": 0.8, "ratio_max": 1.5},
    "clip_cov": {"clip_low": 0.2, "clip_high": 0.2},
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_figure_of_every_objective_has_a_name_and_a_description(name):
    ratio, advantage = torch.tensor(RATIO), torch.tensor(ADVANTAGE)
    logprob, segment = torch.full((4,), -1.0), torch.arange(4)
    part = {"name": name, **SECTIONS.get(name, {})}
    entropy = {"coef": 0.01, "target": 0.5, "delta": 0.001, "coef_max": 0.1}
    kl = {"coef": 0.1, "estimator": "k3", "into": "loss", "importance": False}
    objective = build_objective({"loss": part, "kl": kl, "entropy": entropy})
    tokens = UpdateTokens(
        logprob=logprob,
        anchor_logprob=logprob - ratio.log(),
        advantage=advantage,
        segment=segment,
        noise=torch.zeros(4),
    )
    figures = objective.figures(tokens)
    x = LossInputs(
        logprob=logprob,
        anchor_logprob=logprob - ratio.log(),
        advantage=advantage,
        segment=segment,
        reference_logprob=logprob,
        entropy=torch.ones(4),
        selected=figures.selected,
    )
    meter = StepMeter()
    loss = objective.loss(x, figures, AdaptiveState())
    meter.add_tokens(
        loss,
        update=0,
        behaviour_ratio=ratio,
        entropy=torch.ones(4),
        advantage=advantage,
        logprob=logprob,
        correction=ratio,
    )
    meter.add_mismatch(ratio)
    meter.add_masked(torch.zeros(4))
    meter.add_lag(np.zeros(4, np.int32))
    outcome = UpdateOutcome(applied=True, grad_norm=1.0, lr=0.1, update_norm=0.01)
    meter.add_update(0.0, outcome, {**figures.stats, **objective.state_metrics(AdaptiveState())})
    metrics = meter.result()
    assert "loss/entropy_coef" in metrics
    assert set(metrics) <= set(METRICS)
