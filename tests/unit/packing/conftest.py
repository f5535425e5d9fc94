"""Groups made by hand: each rollout is (prompt length, completion length, reward).

Token ids count up from 100 * group + 10 * rollout, so nothing is shared; with ``one_prompt`` prompts count up from
100 * group.
"""

import numpy as np
import pytest

from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions


@pytest.fixture
def make_group():
    import dataclasses

    def build(number, members, *, version=0, signal=True, advantage=1.0, temperature=1.0, one_prompt=False):
        rollouts = []
        for index, (p, n, reward) in enumerate(members):
            start = 100 * number + 10 * index
            opening = 100 * number if one_prompt else start
            prompt = Prompt(
                prompt_id=f"p{number}",
                source="t",
                text="",
                token_ids=np.arange(opening, opening + p, dtype=np.int32),
                row={},
            )
            completion = Completion(
                request_id="",
                token_ids=np.arange(start + p, start + p + n, dtype=np.int32),
                logprob=-np.arange(1, n + 1, dtype=np.float32) / 8,
                policy_version=np.full(n, version, np.int32),
                finish_reason="stop",
            )
            rollout = rollout_from_completions(
                prompt,
                completion,
                rollout_id=f"{number}.{index}",
                group_id=str(number),
                seed=0,
                temperature=temperature,
            )
            verdict = Verdict(reward=reward, error=None if reward is not None else "grader broke")
            filled = np.where(rollout.trainable, np.float32(advantage), np.float32(0))
            rollouts.append(dataclasses.replace(rollout, verdict=verdict, advantage=filled))
        return Group(group_id=str(number), prompt=prompt, admission=number, rollouts=tuple(rollouts), signal=signal)

    return build
