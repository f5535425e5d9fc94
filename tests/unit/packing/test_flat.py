"""What the rollouts of a group have in common, by hand and against a loop."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.packing.flat import flatten, ragged, shared_prompts
from headrace.records import NO_VERSION, Rollout


def rollout(token_ids, trainable):
    size = len(token_ids)
    return Rollout(
        rollout_id="", group_id="", prompt_id="", source="", seed=0, temperature=1.0, finish_reason="stop",
        token_ids=np.asarray(token_ids, np.int32),
        trainable=np.asarray(trainable, np.bool_),
        behaviour_logprob=np.zeros(size, np.float32),
        policy_version=np.full(size, NO_VERSION, np.int32),
        advantage=np.zeros(size, np.float32),
    )  # fmt: skip


def shared(groups):
    rollouts = [rollout(*member) for group in groups for member in group]
    number = np.asarray([g for g, group in enumerate(groups) for _ in group])
    return shared_prompts(flatten(rollouts, number)).tolist()


def test_the_prompt_is_shared_and_what_the_policy_wrote_is_not():
    assert shared([[([5, 6, 7, 8], [0, 0, 1, 1]), ([5, 6, 7], [0, 0, 1])]]) == [2]


def test_prompts_that_part_are_shared_up_to_there():
    # Two turns: the first prompt is the same, the policy's first answer ends what can be shared.
    turns = [([1, 2, 3, 9, 4, 9], [0, 0, 0, 1, 0, 1]), ([1, 2, 3, 9, 4, 8], [0, 0, 0, 1, 0, 1])]
    assert shared([turns]) == [3]
    assert shared([[([1, 2, 3, 9], [0, 0, 0, 1]), ([1, 7, 3, 9], [0, 0, 0, 1])]]) == [1]
    assert shared([[([1, 2, 9], [0, 0, 1]), ([2, 2, 9], [0, 0, 1])]]) == [0]


def test_a_group_of_one_shares_nothing():
    assert shared([[([1, 2, 9], [0, 0, 1])], [([1, 2, 9], [0, 0, 1]), ([1, 2, 8], [0, 0, 1])]]) == [0, 2]


TOKENS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=6)  # few values, so that runs coincide


@given(st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_longest_common_run_by_a_loop(groups):
    members = [
        [([0, *(t for t, _ in tokens), 9], [False, *(w == 0 for _, w in tokens), True]) for tokens in group]
        for group in groups
    ]
    expected = []
    for group in members:
        run = 0
        while len(group) > 1 and all(
            len(ids) > run and not own[run] and ids[run] == group[0][0][run] for ids, own in group
        ):
            run += 1
        expected.append(run)
    assert shared(members) == expected


def test_flat_arrays_by_hand():
    flat = flatten([rollout([4, 5], [0, 1]), rollout([6, 7, 8], [0, 1, 1])], np.array([3, 7]))
    assert flat.token_ids.tolist() == [4, 5, 6, 7, 8]
    assert flat.start.tolist() == [0, 2]
    assert flat.length.tolist() == [2, 3]
    assert flat.group.tolist() == [0, 1]  # numbers of the step, closed up
    assert flat.num_trainable.tolist() == [1, 2]
    assert {len(getattr(flat, f.name)) for f in dataclasses.fields(flat)} == {2, 5}


def test_ragged_runs():
    run, place = ragged(np.array([2, 0, 3]))
    assert run.tolist() == [0, 0, 2, 2, 2]
    assert place.tolist() == [0, 1, 0, 1, 2]
