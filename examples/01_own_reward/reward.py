"""A reward of your own: a plain function with TRL's signature, named in the recipe as ``reward.py:short_and_right``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def short_and_right(completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
    """1 for a right answer, less a little for every character beyond 30; 0 for a wrong one.

    The data set's columns come as keywords, one list each. ``None`` in place of a float means "cannot be judged".
    """
    rewards = []
    for completion, gold in zip(completions, answer, strict=True):
        right = completion.rpartition("#")[2].strip() == gold
        rewards.append(1.0 - 0.01 * max(len(completion) - 30, 0) if right else 0.0)
    return rewards
