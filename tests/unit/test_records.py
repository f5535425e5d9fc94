from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headrace.errors import RecordError
from headrace.records import (
    Completion,
    Prompt,
    Rollout,
    check_rollout,
    completion_ids,
    rollout_from_completions,
)

PROMPT = Prompt(prompt_id="p", source="s", text="12", token_ids=np.asarray([1, 2], np.int32), row={})


def joined(logprobs: list[float], versions: list[int]) -> Rollout:
    completion = Completion(
        request_id="x",
        token_ids=np.asarray([7, 8, 9], np.int32),
        logprob=np.asarray(logprobs, np.float32),
        policy_version=np.asarray(versions, np.int32),
        finish_reason="stop",
        lineage=3,
    )
    return rollout_from_completions(PROMPT, completion, rollout_id="r", group_id="g", seed=5, temperature=0.5)


def test_a_prompt_and_its_completion_in_one_sequence() -> None:
    rollout = check_rollout(joined([-0.5, -0.25, 0.0], [4, 4, 5]))
    assert rollout.token_ids.tolist() == [1, 2, 7, 8, 9]
    assert rollout.trainable.tolist() == [False, False, True, True, True]
    assert rollout.behaviour_logprob.tolist() == [0.0, 0.0, -0.5, -0.25, 0.0]
    assert rollout.policy_version.tolist() == [-1, -1, 4, 4, 5]
    assert (rollout.token_ids.dtype, rollout.policy_version.dtype) == (np.int32, np.int32)
    assert (rollout.behaviour_logprob.dtype, rollout.trainable.dtype) == (np.float32, np.bool_)
    assert (rollout.seed, rollout.temperature, rollout.lineage, rollout.oldest_version) == (5, 0.5, 3, 4)


@pytest.mark.parametrize(("logprobs", "versions"), [([-0.5], [4, 4, 4]), ([-0.5] * 3, [4]), ([-0.5] * 4, [4] * 4)])
def test_arrays_of_different_length_are_not_stretched(logprobs: list[float], versions: list[int]) -> None:
    with pytest.raises(RecordError, match=f"3 tokens came with {len(logprobs)} log-probabilities and {len(versions)}"):
        joined(logprobs, versions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainable": [False, False, True, True]}, "trainable has 4 entries for 5 tokens"),
        ({"policy_version": [-1, -1, 4, -1, 4]}, "a trainable token has no policy version"),
        ({"policy_version": [-1, 0, 4, 4, 4]}, "did not sample carries a policy version"),
        ({"behaviour_logprob": [0, 0, -1, 0.1, -1]}, "a behaviour log-probability is above 0"),
        ({"behaviour_logprob": [0, -0.5, -1, -1, -1]}, "did not sample carries a behaviour log-probability"),
        ({"finish_reason": "tired"}, "finish_reason 'tired' is none of"),
        ({"advantage": [0.0]}, "advantage has 1 entries for 5 tokens"),
    ],
)
def test_each_invariant_is_named(changes: dict[str, Any], message: str) -> None:
    values = {k: np.asarray(v) if isinstance(v, list) else v for k, v in changes.items()}
    with pytest.raises(RecordError, match=f"rollout r: .*{message}"):
        check_rollout(replace(joined([-1.0] * 3, [4] * 3), **values))


def test_nan_is_left_to_the_one_who_judges() -> None:
    """It is no breach of the record; the assembler gives such a completion no score."""
    rollout = joined([-1.0, float("nan"), -1.0], [4] * 3)
    assert check_rollout(rollout) is rollout


def test_the_completion_begins_with_the_first_sampled_token_and_keeps_a_tools_words() -> None:
    rollout = joined([-1.0] * 3, [4] * 3)
    assert completion_ids(rollout) == [7, 8, 9]
    tool = replace(rollout, trainable=np.asarray([False, False, True, False, True]))
    assert completion_ids(tool) == [7, 8, 9]
    assert completion_ids(replace(rollout, trainable=np.zeros(5, np.bool_))) == []
