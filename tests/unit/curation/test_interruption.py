"""Where thinking is cut, what is put in, and that none of it is trained on."""

import numpy as np
import pytest

from headrace.curation.interruption import Interruption, joined_rollout, second_prefix
from headrace.packing.loss_weights import token_weights
from headrace.records import Completion, Prompt

THINK_END = 7
PROMPT = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([1, 2], np.int32), row={})


def rule(**keys):
    return Interruption(
        **{"low": 3, "high": 5, "injected_ids": (8, 7), "closing_ids": (7,), "answer_tokens": 4, **keys}
    )


def part(ids, finish, *, version=0):
    n = len(ids)
    logprob = -np.arange(1, n + 1, dtype=np.float32) / 8
    return Completion(
        request_id="", token_ids=np.array(ids, np.int32), logprob=logprob,
        policy_version=np.full(n, version, np.int32), finish_reason=finish,
    )  # fmt: skip


def joined(thinking, injected, answer):
    return joined_rollout(PROMPT, thinking, injected, answer, rollout_id="r", group_id="g", seed=3, temperature=1.0)


def test_budgets_cover_the_range_evenly_and_depend_on_the_seed_alone():
    budgets = [rule().budget(seed) for seed in range(3000)]
    counts = np.bincount(budgets)
    assert counts[:3].tolist() == [0, 0, 0]
    assert len(counts) == 6
    assert all(900 < c < 1100 for c in counts[3:])
    assert budgets == [rule().budget(seed) for seed in range(3000)]


def test_one_possible_budget():
    assert {rule(low=10_240, high=10_240).budget(seed) for seed in range(5)} == {10_240}


def test_room_for_the_longest_completion():
    assert rule().max_tokens == 5 + 2 + 4


@pytest.mark.parametrize(
    ("ids", "finish", "move"),
    [
        ([4, 5, 6], "length", "interrupt"),
        ([4, THINK_END, 6], "length", "continue"),
        ([4, 5, 6], "stop", "end"),
        ([4, THINK_END, 6], "stop", "end"),
        ([4, 5, 6], "abort", "end"),
    ],
)
def test_what_follows_the_first_part(ids, finish, move):
    assert rule().next_move(part(ids, finish)) == move


def test_closing_ids_count_in_their_order_only():
    two = rule(closing_ids=(7, 8))
    assert two.next_move(part([7, 9, 8, 7], "length")) == "interrupt"
    assert two.next_move(part([9, 7, 8], "length")) == "continue"


def test_with_no_sign_of_closing_every_budget_that_runs_out_is_an_interruption():
    assert rule(closing_ids=()).next_move(part([4, THINK_END, 6], "length")) == "interrupt"


def test_injected_tokens_are_neither_sampled_nor_trained():
    rollout = joined(part([4, 5], "length", version=3), (8, 7), part([6, 9, 2], "stop", version=4))
    assert rollout.token_ids.tolist() == [1, 2, 4, 5, 8, 7, 6, 9, 2]
    assert rollout.trainable.tolist() == [False, False, True, True, False, False, True, True, True]
    assert rollout.policy_version.tolist() == [-1, -1, 3, 3, -1, -1, 4, 4, 4]
    assert rollout.behaviour_logprob.tolist() == [0, 0, -0.125, -0.25, 0, 0, -0.125, -0.25, -0.375]
    assert rollout.finish_reason == "interrupted"
    assert (rollout.num_trainable, rollout.oldest_version) == (5, 3)
    assert token_weights("token_mean", [rollout.num_trainable], [0]).tolist() == [0.2]


def test_the_answer_is_sampled_from_everything_before_it():
    assert second_prefix(PROMPT, part([4, 5], "length"), (8, 7)).tolist() == [1, 2, 4, 5, 8, 7]


def test_an_answer_that_runs_out_of_tokens_was_cut_off():
    assert joined(part([4], "length"), (8, 7), part([6], "length")).finish_reason == "length"


def test_an_answer_that_merely_went_on_was_not_interrupted():
    rollout = joined(part([4, 7], "length"), (), part([6, 2], "stop"))
    assert rollout.finish_reason == "stop"
    assert rollout.trainable.tolist() == [False, False, True, True, True, True]


@pytest.mark.parametrize("keys", [{"low": 0}, {"low": 6}, {"injected_ids": ()}, {"answer_tokens": 0}])
def test_refusals(keys):
    with pytest.raises(ValueError, match=r"budget|interruption"):
        rule(**keys)
