"""Which tokens train: exactly those that were sampled, the end token among them, whatever their ids are.

What trains is recorded when a token is sampled and never worked out from ids, so an end id that doubles as padding, a
second end id, or a completion that is nothing but its end changes nothing.
"""

import dataclasses

import numpy as np
import pytest

from headrace.packing.batch import pack
from headrace.packing.eligible import count_masked, masked_reason
from headrace.records import Completion, Group, Prompt, Rollout, Verdict, check_rollout, rollout_from_completions

PROMPT = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([4, 0], np.int32), row={})
LONG = [11, 12, 13, 14, 15]


def completed(ids, finish="stop"):
    """A rollout whose completion was ``ids``, judged wrong, with advantage 1 on what trains."""
    completion = Completion(
        request_id="",
        token_ids=np.array(ids, np.int32),
        logprob=np.full(len(ids), -0.5, np.float32),
        policy_version=np.zeros(len(ids), np.int32),
        finish_reason=finish,
    )
    rollout = rollout_from_completions(PROMPT, completion, rollout_id="r", group_id="g", seed=0, temperature=1.0)
    return judged(rollout)


def judged(rollout):
    advantage = rollout.trainable.astype(np.float32)
    return dataclasses.replace(rollout, verdict=Verdict(reward=0.0), advantage=advantage)


def trained_ids(*rollouts):
    """Ids with loss weight after packing, row by row, segments in order."""
    group = Group(group_id="g", prompt=PROMPT, admission=0, rollouts=rollouts)
    plan = {"num_minibatches": 1, "num_epochs": 1, "micro_batch_tokens": 64}
    batch = pack([group], step=0, lineage=0, max_lag=0, loss_weight="token_mean", **plan)
    found = {}
    for update in batch.updates:
        for micro in update:
            for segment in range(len(rollouts)):
                chosen = (micro.segment == segment) & (micro.loss_weight > 0)
                if chosen.any():
                    found[segment] = micro.token_ids[chosen].tolist()
    return found


@pytest.mark.parametrize(
    "ids",
    [
        [11, 12, 2],  # ends with the end token, id 2
        [11, 12, 9],  # ends with another end token of the model
        [2],  # nothing but the end token
        [11, 0, 12, 0, 2],  # id 0, which padding is made of, sampled in earnest
        [1, 2],  # ids whose text encodes to one other id
    ],
)
def test_every_sampled_token_trains_and_no_padding_does(ids):
    assert trained_ids(completed(ids), completed(LONG)) == {0: ids, 1: LONG}


def test_only_what_was_sampled_of_a_turn_trains():
    # Prompt 4 0, header 50 51, sampled 60 61 2, newline 10, tool 70, sampled 80 2.
    ids = [4, 0, 50, 51, 60, 61, 2, 10, 70, 80, 2]
    sampled = np.array([False] * 4 + [True] * 3 + [False] * 2 + [True] * 2)
    rollout = Rollout(
        rollout_id="r",
        group_id="g",
        prompt_id="p",
        source="t",
        seed=0,
        temperature=1.0,
        token_ids=np.array(ids, np.int32),
        trainable=sampled,
        behaviour_logprob=np.where(sampled, -0.5, 0).astype(np.float32),
        policy_version=np.where(sampled, 0, -1).astype(np.int32),
        finish_reason="stop",
    )
    assert trained_ids(judged(check_rollout(rollout))) == {0: [60, 61, 2, 80, 2]}


def test_a_rollout_without_a_sampled_token_is_masked_and_counted():
    empty = completed([])
    assert masked_reason(empty) == "empty"
    group = Group(group_id="g", prompt=PROMPT, admission=0, rollouts=(empty, completed([11, 2])))
    assert count_masked([group]) == {"empty": 1}
    assert trained_ids(empty, completed([11, 2])) == {1: [11, 2]}
