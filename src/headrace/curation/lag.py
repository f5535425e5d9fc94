"""The bound on lag as a function of the step."""

from __future__ import annotations

from collections.abc import Callable


def constant_lag(max_lag: int) -> Callable[[int], int]:
    """The same bound at every step. Raises ``ValueError`` below 0."""
    if max_lag < 0:
        raise ValueError(f"max_lag {max_lag} is below 0")

    def bound(step: int) -> int:
        return max_lag

    return bound
