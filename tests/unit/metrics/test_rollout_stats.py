import numpy as np

from headrace.metrics.rollout_stats import rollout_stats
from headrace.records import Rollout


def rollout(versions: list[int], advantage: list[float] | None = None) -> Rollout:
    """A token for each version; those of version -1 are not the policy's."""
    n = len(versions)
    return Rollout(
        rollout_id="r",
        group_id="g",
        prompt_id="p",
        source="s",
        seed=0,
        temperature=1.0,
        token_ids=np.arange(n, dtype=np.int32),
        trainable=np.asarray([v >= 0 for v in versions], np.bool_),
        behaviour_logprob=np.zeros(n, np.float32),
        policy_version=np.asarray(versions, np.int32),
        finish_reason="stop",
        advantage=None if advantage is None else np.asarray(advantage, np.float32),
    )


def test_each_rollout_by_its_own_tokens() -> None:
    stats = rollout_stats(
        [
            rollout([-1, -1]),  # nothing was sampled
            rollout([-1, 7, 9, -1, 8], [0.0, 1.0, 2.0, 0.0, 6.0]),  # a tool's token in between
            rollout([], []),
            rollout([4, 4], None),
            rollout([-1, 0], [5.0, -1.5]),
        ]
    )
    assert stats.num_trainable.tolist() == [0, 3, 0, 2, 1]
    assert stats.oldest.tolist() == [-1, 7, -1, 4, 0]
    assert stats.newest.tolist() == [-1, 9, -1, 4, 0]
    assert stats.mixed.tolist() == [False, True, False, False, False]
    np.testing.assert_array_equal(stats.advantage, [np.nan, 3.0, np.nan, np.nan, -1.5])


def test_no_rollouts_and_no_sampled_tokens() -> None:
    assert rollout_stats([]).num_trainable.tolist() == []
    nothing = rollout_stats([rollout([-1])])
    assert (nothing.num_trainable.tolist(), nothing.oldest.tolist(), nothing.mixed.tolist()) == ([0], [-1], [False])
    assert np.isnan(nothing.advantage).all()
