"""Completions near or at the token limit: a penalty that grows before it, and which of them are left out of the loss.

Penalties go onto the reward after the zero-variance filter (an all-right group must not come alive by its lengths) and
before the group's mean. Cut-off completions that are masked stay members of their group: they count in its mean and
standard deviation and in no loss denominator.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.records import Group, Rollout

PENALTY = "overlong"
"""Name of the penalty among a verdict's parts."""


def overlong_penalty(length: int, *, max_tokens: int, buffer_tokens: int, factor: float = 1.0) -> float:
    """Soft overlong punishment, in [-factor, 0] (DAPO, arXiv 2503.14476 eq. 13).

    0 up to ``max_tokens - buffer_tokens``, from there evenly to -``factor`` at ``max_tokens``, and -``factor`` beyond.
    With 20480 and 4096: 0 at 16384 tokens, -.5 at 18432, -1 at 20480. ScaleRL's clip((L_max - L) / L_cache - 1, -1, 0)
    (arXiv 2510.13786) is the same function. Raises ``ValueError`` unless 0 < buffer_tokens <= max_tokens.
    """
    if not 0 < buffer_tokens <= max_tokens:
        raise ValueError(f"buffer_tokens {buffer_tokens} lies outside (0, {max_tokens}]")
    over = length - (max_tokens - buffer_tokens)
    return -factor * min(max(over / buffer_tokens, 0.0), 1.0) if over > 0 else 0.0


def shaped(
    group: Group, *, max_tokens: int, buffer_tokens: int, factor: float = 1.0, only_right: bool = False
) -> Group:
    """The group with the penalty for the length of each completion (tokens the policy wrote) added to its reward.

    The verdict's ``parts`` name the penalty; ``passed`` stays. ``only_right``: completions that passed alone
    (ScaleRL's length penalty). Completions that could not be judged stay as they are.
    """

    def one(rollout: Rollout) -> Rollout:
        verdict = rollout.verdict
        if verdict is None or verdict.reward is None or (only_right and not verdict.passed):
            return rollout
        penalty = overlong_penalty(
            rollout.num_trainable, max_tokens=max_tokens, buffer_tokens=buffer_tokens, factor=factor
        )
        parts = {**verdict.parts, PENALTY: penalty}
        return replace(rollout, verdict=replace(verdict, reward=verdict.reward + penalty, parts=parts))

    return replace(group, rollouts=tuple(one(r) for r in group.rollouts))


def cut_off(rollout: Rollout) -> bool:
    """Whether the completion ran into the token limit. One whose thinking was interrupted and that then answered did
    not; one that was aborted is no completion at all."""
    return rollout.finish_reason == "length"
