"""What a step says of its groups, by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headrace.config.algorithm import AlgorithmSection
from headrace.metrics.names import METRICS
from headrace.pipeline.messages import Stepped
from headrace.pipeline.parts import Trained
from headrace.pipeline.step_metrics import group_metrics, step_metrics, with_advantage
from headrace.records import Group, PackedBatch, StepResult

MakeGroup = Callable[..., Group]


def trained(*groups: Group) -> Trained:
    fields: dict[str, Any] = dict.fromkeys(PackedBatch.__dataclass_fields__, 0)
    stepped = Stepped(result=StepResult(step=5, version=6, metrics={}), train_s=1.0, publish_s=0.0)
    return Trained(groups=groups, batch=PackedBatch(**{**fields, "step": 5, "updates": ()}), stepped=stepped)


def test_group_figures(make_group: MakeGroup) -> None:
    metrics = group_metrics([make_group(0, [3, 4], [4]), make_group(1, [2], [4, 4, 4, 4], rewards=[1.0, 1.0])], step=5)
    assert metrics["rollout/lag_max"] == 3.0
    assert metrics["rollout/lag_mean"] == np.mean([2, 1, 3, 1])
    assert metrics["rollout/mixed_version_frac"] == 0.25
    assert (metrics["rollout/all_right_frac"], metrics["rollout/zero_variance_frac"]) == (0.5, 0.5)
    assert (metrics["rollout/length_p50"], metrics["rollout/length_max"]) == (1.5, 4.0)


@pytest.mark.parametrize(("tolerance", "frac"), [(0.05, 0.0), (0.2, 1.0)])
def test_the_tolerance_of_the_rule_is_that_of_the_figures(make_group: MakeGroup, tolerance: float, frac: float) -> None:
    one = trained(make_group(0, [5], [5], rewards=[0.6, 0.5]))
    metrics = step_metrics(one, AlgorithmSection(zero_variance_tolerance=tolerance))
    assert metrics["rollout/zero_variance_frac"] == frac


def test_an_interrupted_completion_is_not_a_truncated_one(make_group: MakeGroup) -> None:
    """Four members: two interrupted, of which one ran out of its answer's tokens, one cut, one that ended."""
    group = make_group(0, [5], [5], [5], [5])
    ends = ("interrupted", "length", "length", "stop")
    group = replace(group, rollouts=tuple(replace(r, finish_reason=e) for r, e in zip(group.rollouts, ends)))
    part = {"low": 3, "high": 4, "text": "stop", "answer_tokens": 2}
    metrics = step_metrics(trained(group), AlgorithmSection.model_validate({"interruption": part}))
    assert (metrics["rollout/interrupted_frac"], metrics["rollout/truncated_frac"]) == (0.25, 0.5)
    assert "rollout/interrupted_frac" not in step_metrics(trained(group), AlgorithmSection())


def test_temperature_is_that_of_the_completions(make_group: MakeGroup) -> None:
    warm, cool = make_group(0, [5]), make_group(1, [5], [5], [5])
    cool = replace(cool, rollouts=tuple(replace(r, temperature=0.5) for r in cool.rollouts))
    assert group_metrics([warm, cool], step=5)["sampling/temperature"] == (1.0 + 3 * 0.5) / 4


def test_signal_and_advantages(make_group: MakeGroup) -> None:
    """Groups: two tokens at 2 and one at -4; one blanked; all right, at 0."""
    groups = [
        *with_advantage([make_group(0, [5, 5], [5])], [2.0, -4.0]),
        *with_advantage([replace(make_group(1, [5], [5], rewards=[0.0, 0.0]), signal=False)], [0.0, 0.0]),
        *with_advantage([make_group(2, [5], [5], rewards=[1.0, 1.0])], [0.0, 0.0]),
    ]
    metrics = step_metrics(trained(*groups), AlgorithmSection())
    assert metrics["rollout/effective_group_frac"] == pytest.approx(2 / 3)
    assert metrics["rollout/effective_frac"] == pytest.approx(2 / 6)
    assert metrics["loss/advantage_abs_mean"] == (2 * 2 + 4 + 0 + 0) / 5  # the blanked group's tokens do not train
    assert metrics["loss/advantage_outlier_frac"] == 1 / 5
    assert metrics["rollout/pass_rate_q2_frac"] == pytest.approx(1 / 3)  # 1 of 2
    assert metrics["rollout/pass_rate_none_frac"] == pytest.approx(1 / 3)
    assert metrics["rollout/pass_rate_all_frac"] == pytest.approx(1 / 3)
    assert set(metrics) <= set(METRICS)


@pytest.mark.parametrize(("truncated", "effective", "size"), [("train", 1.0, 3.0), ("mask", 0.5, 2.0)])
def test_a_masked_completion_teaches_nothing(
    make_group: MakeGroup, truncated: Any, effective: float, size: float
) -> None:
    """Advantages 2 and -4 of a token each; the second ran into the limit."""
    group = with_advantage([make_group(0, [5], [5])], [2.0, -4.0])[0]
    cut = replace(group, rollouts=(group.rollouts[0], replace(group.rollouts[1], finish_reason="length")))
    metrics = step_metrics(trained(cut), AlgorithmSection(truncated=truncated))
    assert (metrics["rollout/effective_frac"], metrics["loss/advantage_abs_mean"]) == (effective, size)
