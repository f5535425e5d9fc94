import numpy as np
import pytest

from headrace.metrics.evaluation import evaluation_stats, examples
from headrace.records import Completion, Group, Prompt, Rollout, Verdict, rollout_from_completions


def rollout(prompt: Prompt, ids: list[int], verdict: Verdict, finish_reason: str = "stop") -> Rollout:
    from dataclasses import replace

    completion = Completion(
        request_id="q",
        token_ids=np.asarray(ids, np.int32),
        logprob=np.full(len(ids), -0.5, np.float32),
        policy_version=np.zeros(len(ids), np.int32),
        finish_reason=finish_reason,
    )
    made = rollout_from_completions(prompt, completion, rollout_id="r", group_id="g", seed=0, temperature=1.0)
    return replace(made, verdict=verdict)


def group(number: int, *rollouts: tuple[list[int], Verdict, str]) -> Group:
    prompt = Prompt(
        prompt_id=f"p{number}",
        source="s",
        text=f"{number}+1=",
        token_ids=np.asarray([1, 2], np.int32),
        row={"answer": 7},
    )
    made = tuple(rollout(prompt, *parts) for parts in rollouts)
    return Group(group_id=f"g{number}", prompt=prompt, admission=number, rollouts=made)


RIGHT = Verdict(reward=1.0, passed=True, answer="7")
WRONG = Verdict(reward=0.0, passed=False, answer="8")
BROKEN = Verdict(reward=None, error="time out")


@pytest.fixture
def groups() -> list[Group]:
    return [
        group(2, ([5, 6, 7], RIGHT, "stop"), ([5, 6, 8], WRONG, "stop")),
        group(1, ([5, 5, 5, 5], WRONG, "length"), ([9], BROKEN, "stop")),
    ]


def test_figures(groups: list[Group]) -> None:
    stats = evaluation_stats(groups)
    assert (stats["num_prompts"], stats["samples_per_prompt"], stats["num_completions"]) == (2, 2, 4)
    assert stats["mean_at_n"] == 0.25  # 1/2 and 0/1: the completion that was not judged counts in neither
    assert stats["pass_at_k"] == {"1": 0.25, "2": 1.0}  # only the first prompt has two judged completions
    assert stats["standard_error"] == 0.25  # shares 0.5 and 0: sqrt(0.125 / 2)
    assert stats["length_mean"] == 2.75
    assert stats["truncated_frac"] == 0.25
    assert stats["unjudged_frac"] == 0.25
    assert stats["unique_answers"] == 1.5  # {7, 8} and {8}
    # bigrams of prompt 2: 56 67 | 56 68 -> 3/4; of prompt 1: 55 55 55 -> 1/3
    assert stats["distinct_n"]["2"] == pytest.approx((3 / 4 + 1 / 3) / 2)


def test_no_groups_is_no_error() -> None:
    assert evaluation_stats([])["num_prompts"] == 0


def test_examples_are_the_same_prompts_every_time(groups: list[Group]) -> None:
    def decode(ids: list[int]) -> str:
        return "".join(map(str, ids))

    first = examples(groups, decode, limit=1)
    again = examples(list(reversed(groups)), decode, limit=1)
    assert first == again
    assert (first[0].prompt_id, first[0].completion, first[0].answer, first[0].passed) == ("p1", "5555", "7", False)
