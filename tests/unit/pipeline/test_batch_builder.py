"""Verdicts, shaped rewards and advantages, each where it belongs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headrace.config.algorithm import AlgorithmSection, GroupRelative, OverlongSection, ReinforcePP
from headrace.config.sections import BatchSection
from headrace.pipeline.batch_builder import BatchBuilder
from headrace.pipeline.batcher import Cut
from headrace.records import Group, PackedBatch

MakeGroup = Callable[..., Group]


def build(algorithm: AlgorithmSection, *groups: Group) -> tuple[list[Group], PackedBatch]:
    builder = BatchBuilder(algorithm=algorithm, batch=BatchSection(), max_completion_tokens=4)
    return builder.build(Cut(step=0, groups=groups), lineage=0, max_lag=0)


def advantages(group: Group) -> list[float]:
    return [float(r.advantage[r.trainable].mean()) for r in group.rollouts if r.advantage is not None]


def test_groups_keep_their_verdicts_and_train_on_the_shaped_rewards(make_group: MakeGroup) -> None:
    """Limit 4, the last 2 tokens cost up to 1: lengths 2, 3 and 4 lose 0, .5 and 1. Rewards 1, 1, 1 become 1, .5, 0,
    with advantages .5, 0, -.5 around their mean."""
    algorithm = AlgorithmSection(
        advantage=GroupRelative(name="group_relative", scale="none"), overlong=OverlongSection(buffer_tokens=2)
    )
    judged = make_group(0, [0] * 2, [0] * 3, [0] * 4, rewards=[1.0, 1.0, 1.0])
    (group,), batch = build(algorithm, judged)
    assert group.rewards == [1.0, 1.0, 1.0]
    assert [r.verdict for r in group.rollouts] == [r.verdict for r in judged.rollouts]
    assert batch.rewards.tolist() == [1.0, 0.5, 0.0]
    assert advantages(group) == [0.5, 0.0, -0.5]


def test_without_shaping_both_are_the_same(make_group: MakeGroup) -> None:
    algorithm = AlgorithmSection(advantage=GroupRelative(name="group_relative", scale="none"))
    (group,), batch = build(algorithm, make_group(0, [0], [0], [0], rewards=[1.0, 0.0, None]))
    assert group.rewards == [1.0, 0.0, None]
    np.testing.assert_array_equal(batch.rewards, [1.0, 0.0, np.nan])
    assert advantages(group) == [0.5, -0.5, 0.0]


@pytest.mark.parametrize(("tolerance", "expected"), [(0.05, [0.05, -0.05]), (0.2, [0.0, 0.0])])
def test_rewards_closer_than_the_tolerance_teach_nothing(
    make_group: MakeGroup, tolerance: float, expected: list[float]
) -> None:
    algorithm = AlgorithmSection(
        advantage=GroupRelative(name="group_relative", scale="none"), zero_variance_tolerance=tolerance
    )
    (group,), _ = build(algorithm, make_group(0, [0], [0], rewards=[0.6, 0.5]))
    assert advantages(group) == pytest.approx(expected)


def test_what_the_trainer_makes_is_not_made_here(make_group: MakeGroup) -> None:
    (group,), batch = build(AlgorithmSection(advantage=ReinforcePP(name="reinforce_pp")), make_group(0, [0], [0]))
    assert batch.rewards.tolist() == [1.0, 0.0]
    assert len(advantages(group)) == 2
