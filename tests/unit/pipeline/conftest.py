"""Groups and ledger entries of a given age."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from headrace.pipeline.ledger import Outstanding
from headrace.records import Group, Prompt, Rollout, Verdict

PROMPT = Prompt(prompt_id="p", source="numbers", text="12+30=", token_ids=np.asarray([1, 2], np.int32), row={})


def rollout_of(versions: Sequence[int], *, reward: float | None = 1.0, name: str = "train-0-0") -> Rollout:
    """Two prompt tokens, then one sampled token of each version."""
    n = len(versions)
    return Rollout(
        rollout_id=name,
        group_id=name.rsplit("-", 1)[0],
        prompt_id="p",
        source="numbers",
        seed=1,
        temperature=1.0,
        token_ids=np.arange(2 + n, dtype=np.int32),
        trainable=np.asarray([False] * 2 + [True] * n),
        behaviour_logprob=np.asarray([0.0] * 2 + [-0.5] * n, np.float32),
        policy_version=np.asarray([-1] * 2 + list(versions), np.int32),
        finish_reason="stop",
        verdict=Verdict(reward=reward, passed=reward == 1.0),
    )


def group_of(admission: int, *versions: Sequence[int], rewards: Sequence[float | None] = ()) -> Group:
    """One rollout for each sequence of versions; rewards alternate 1, 0 unless given."""
    scores = rewards or [float(i % 2 == 0) for i in range(len(versions))]
    rollouts = tuple(rollout_of(v, reward=scores[i], name=f"train-{admission}-{i}") for i, v in enumerate(versions))
    return Group(group_id=f"train-{admission}", prompt=PROMPT, admission=admission, rollouts=rollouts)


def entry_of(admission: int, version: int) -> Outstanding:
    return Outstanding(
        admission=admission,
        group_id=f"train-{admission}",
        prompt=PROMPT,
        position=admission,
        generator="generator-0",
        admitted_version=version,
    )


@pytest.fixture
def make_rollout() -> Callable[..., Rollout]:
    return rollout_of


@pytest.fixture
def make_group() -> Callable[..., Group]:
    return group_of


@pytest.fixture
def make_entry() -> Callable[[int, int], Outstanding]:
    return entry_of
