"""Groups made by hand: each rollout is (reward, passed, tokens written, finish reason), with defaults."""

import dataclasses

import numpy as np
import pytest

from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions


@pytest.fixture(scope="session")
def make_group():
    def build(rewards, *, passed=None, lengths=None, finish=None, version=0, admission=0, prompt_id="p", index=0):
        prompt = Prompt(
            prompt_id=prompt_id, source="t", text="", token_ids=np.array([1], np.int32), row={}, index=index
        )
        rollouts = []
        for member, reward in enumerate(rewards):
            n = lengths[member] if lengths else 1
            completion = Completion(
                request_id="",
                token_ids=np.full(n, 2, np.int32),
                logprob=np.zeros(n, np.float32),
                policy_version=np.full(n, version, np.int32),
                finish_reason=finish[member] if finish else "stop",
            )
            good = reward == 1 if passed is None else passed[member]
            verdict = Verdict(reward=reward, passed=good, error="grader broke" if reward is None else None)
            rollout = rollout_from_completions(
                prompt, completion, rollout_id=f"{admission}.{member}", group_id="g", seed=0, temperature=1.0
            )
            rollouts.append(dataclasses.replace(rollout, verdict=verdict))
        return Group(group_id=str(admission), prompt=prompt, admission=admission, rollouts=tuple(rollouts))

    return build
