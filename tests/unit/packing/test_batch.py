import dataclasses
import pickle

import numpy as np
import pytest

from headrace.errors import RecordError
from headrace.packing.batch import pack, padding_like
from headrace.packing.eligible import count_masked


def packed(groups, **changes):
    settings = {
        "step": 3,
        "lineage": 0,
        "max_lag": 4,
        "loss_weight": "sample_mean",
        "num_minibatches": 1,
        "num_epochs": 1,
        "micro_batch_tokens": 64,
    }
    return pack(groups, **(settings | changes))


def segments(micros):
    return sorted({int(s) for m in micros for s in m.segment.ravel() if s >= 0})


def test_one_row_by_hand(make_group):
    batch = packed([make_group(0, [(2, 3, 1.0)]), make_group(1, [(1, 2, 0.0)])], loss_weight="token_mean")
    ((micro,),) = batch.updates
    assert micro.token_ids.tolist() == [[0, 1, 2, 3, 4, 100, 101, 102]]
    first = micro.segment == 0
    assert micro.token_ids[first].tolist() == [0, 1, 2, 3, 4]
    assert micro.position_ids[first].tolist() == [0, 1, 2, 3, 4]
    assert micro.trainable[first].tolist() == [False, False, True, True, True]
    assert micro.behaviour_logprob[first].tolist() == pytest.approx([0, 0, -0.125, -0.25, -0.375])
    assert micro.policy_version[first].tolist() == [-1, -1, 0, 0, 0]
    assert micro.loss_weight[first].tolist() == pytest.approx([0, 0, 0.2, 0.2, 0.2])
    assert micro.advantage[first].tolist() == [0, 0, 1, 1, 1]
    assert (batch.num_tokens, batch.num_trainable) == (8, 5)
    assert batch.group_index.tolist() == [0, 1]
    assert batch.rewards.tolist() == [1.0, 0.0]


def test_two_completions_of_one_prompt_by_hand(make_group):
    batch = packed([make_group(0, [(3, 2, 1.0), (3, 3, 0.0)], one_prompt=True)], micro_batch_tokens=8)
    ((micro,),) = batch.updates
    # The longer completion comes first; the block is number 2, after rollouts 0 and 1.
    assert micro.token_ids.tolist() == [[0, 1, 2, 13, 14, 15, 3, 4]]
    assert micro.position_ids.tolist() == [[0, 1, 2, 3, 4, 5, 3, 4]]
    assert micro.segment.tolist() == [[2, 2, 2, 1, 1, 1, 0, 0]]
    assert micro.prefix.tolist() == [[2, 2, 2, 2, 2, 2, 2, 2]]
    assert micro.previous.tolist() == [[-1, 0, 1, 2, 3, 4, 2, 6]]
    assert micro.trainable.tolist() == [[False] * 3 + [True] * 5]
    assert micro.behaviour_logprob.tolist() == [[0, 0, 0, -0.125, -0.25, -0.375, -0.125, -0.25]]
    assert micro.policy_version.tolist() == [[-1, -1, -1, 0, 0, 0, 0, 0]]
    assert micro.advantage.tolist() == [[0, 0, 0, 1, 1, 1, 1, 1]]
    assert micro.loss_weight[0] == pytest.approx([0, 0, 0, 1 / 6, 1 / 6, 1 / 6, 1 / 4, 1 / 4])
    assert (batch.num_tokens, batch.num_trainable) == (8, 5)


def test_a_lone_rollout_beside_a_shared_prompt_and_padding_by_hand(make_group):
    groups = [make_group(0, [(2, 1, 1.0), (2, 2, 0.0)], one_prompt=True), make_group(1, [(1, 5, 1.0)])]
    ((micro,),) = packed(groups, micro_batch_tokens=12).updates
    assert micro.token_ids.tolist() == [[100, 101, 102, 103, 104, 105], [0, 1, 12, 13, 2, 0]]
    assert micro.position_ids.tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 2, 0]]
    assert micro.segment.tolist() == [[2, 2, 2, 2, 2, 2], [3, 3, 1, 1, 0, -1]]  # 3 rollouts, so 3 is group 0's block
    assert micro.prefix.tolist() == [[2, 2, 2, 2, 2, 2], [3, 3, 3, 3, 3, -1]]
    assert micro.previous.tolist() == [[-1, 0, 1, 2, 3, 4], [-1, 0, 1, 2, 1, -1]]


def test_each_row_has_its_own_block_of_a_group(make_group):
    batch = packed([make_group(0, [(3, 4, 1.0)] * 4, one_prompt=True)], micro_batch_tokens=11)
    rows = [row for micro in batch.updates[0] for row in zip(micro.segment, micro.previous, strict=True)]
    assert [segment.tolist() for segment, _ in rows] == [[4] * 3 + [0] * 4 + [1] * 4, [4] * 3 + [2] * 4 + [3] * 4]
    assert [previous.tolist() for _, previous in rows] == [[-1, 0, 1, 2, 3, 4, 5, 2, 7, 8, 9]] * 2
    assert batch.num_tokens == 22  # 28 with a prompt each


def test_weights_sum_to_one_over_every_update(make_group):
    groups = [make_group(i, [(2, 3 + i, 1.0), (2, 9 - i, 0.0)]) for i in range(6)]
    for rule in ("token_mean", "sample_mean", "prompt_mean"):
        batch = packed(groups, loss_weight=rule, num_minibatches=3, micro_batch_tokens=24)
        assert len(batch.updates) == 3
        for update in batch.updates:
            assert sum(m.loss_weight.sum() for m in update) == pytest.approx(1.0, abs=1e-15)
            assert all(m.token_ids.size <= 24 for m in update)


def test_groups_stay_whole_and_epochs_share_their_micro_batches(make_group):
    groups = [make_group(i, [(2, 3, 1.0), (2, 4, 0.0)]) for i in range(5)]
    batch = packed(groups, num_minibatches=2, num_epochs=3, micro_batch_tokens=16)
    assert [segments(u) for u in batch.updates] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]] * 3
    again = pickle.loads(pickle.dumps(batch))
    assert again.updates[0][0] is again.updates[2][0]


def test_a_group_without_signal_keeps_its_place_and_nothing_else(make_group):
    groups = [make_group(i, [(2, 3, 1.0), (2, 3, 0.0)], signal=i != 1) for i in range(3)]
    batch = packed(groups, loss_weight="prompt_mean")
    assert segments(batch.updates[0]) == [0, 1, 4, 5]
    assert batch.group_index.tolist() == [0, 0, 1, 1, 2, 2]
    assert len(batch.rewards) == 6
    weights = np.concatenate([m.loss_weight[m.trainable] for m in batch.updates[0]])
    assert weights == pytest.approx(np.full(12, 1 / 12))  # two prompts of six tokens, not three


def test_equal_rewards_under_keep_count_like_any_group(make_group):
    groups = [make_group(0, [(2, 3, 1.0), (2, 3, 1.0)], advantage=0.0), make_group(1, [(2, 3, 1.0), (2, 3, 0.0)])]
    weights = [m.loss_weight[m.trainable] for m in packed(groups).updates[0]]
    assert np.concatenate(weights) == pytest.approx(np.full(12, 1 / 12))


def test_unjudged_and_non_finite_rollouts_are_masked_and_counted(make_group):
    group = make_group(0, [(2, 3, 1.0), (2, 3, None), (2, 3, 0.0)])
    broken = dataclasses.replace(group.rollouts[2], behaviour_logprob=np.array([0, 0, -1, -np.inf, -1], np.float32))
    group = dataclasses.replace(group, rollouts=(*group.rollouts[:2], broken))
    batch = packed([group])
    assert segments(batch.updates[0]) == [0]
    assert np.isnan(batch.rewards[1])
    weights = np.concatenate([m.loss_weight[m.trainable] for m in batch.updates[0]])
    assert weights == pytest.approx([1 / 3] * 3)
    assert count_masked([group]) == {"unjudged": 1, "non_finite": 1}


def test_nothing_left_is_a_batch_without_signal(make_group):
    batch = packed([make_group(0, [(2, 3, 1.0), (2, 3, 1.0)], signal=False)], num_minibatches=2)
    assert batch.updates == ((), ())
    assert not batch.has_signal
    assert batch.num_tokens == 0


def test_no_rollout_of_a_step_is_lost(make_group):
    groups = [make_group(i, [(2, 3 + i % 4, 1.0), (2, 5, 0.0), (3, 7, 0.0)]) for i in range(7)]
    batch = packed(groups, num_minibatches=4, micro_batch_tokens=20)
    assert [s for u in batch.updates for s in segments(u)] == list(range(21))


def test_a_padding_micro_batch_has_no_weight_and_no_tokens(make_group):
    micro = packed([make_group(0, [(2, 3, 1.0)])]).updates[0][0]
    blank = padding_like(micro)
    assert blank.token_ids.shape == micro.token_ids.shape
    assert not blank.trainable.any()
    assert not blank.loss_weight.any()


def test_refusals(make_group):
    with pytest.raises(RecordError, match=r"batch\.micro_batch_tokens is 4"):
        packed([make_group(0, [(2, 3, 1.0)])], micro_batch_tokens=4)
    with pytest.raises(RecordError, match="first token is trainable"):
        packed([make_group(0, [(0, 3, 1.0)])])
    group = make_group(0, [(2, 3, 1.0)])
    bare = dataclasses.replace(group, rollouts=(dataclasses.replace(group.rollouts[0], advantage=None),))
    with pytest.raises(RecordError, match="no advantage"):
        packed([bare])
