"""Groups that teach nothing: what they are, how they are counted, and the three things that can happen to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headrace.records import Group

TOLERANCE = 1e-6

Kind = Literal["signal", "all_right", "all_wrong", "all_equal", "unjudged"]


def judged_rewards(group: Group) -> list[float]:
    """Rewards of the members that were judged."""
    return [r for r in group.rewards if r is not None]


def has_signal(group: Group, tolerance: float = TOLERANCE) -> bool:
    """Whether the judged, unshaped rewards differ by more than ``tolerance``. Fewer than two judged members: False."""
    rewards = judged_rewards(group)
    return len(rewards) >= 2 and max(rewards) - min(rewards) > tolerance


def kind_of(group: Group, tolerance: float = TOLERANCE) -> Kind:
    """Why a group has no signal: 'unjudged' (fewer than two judged), 'all_right', 'all_wrong', or 'all_equal'
    (equal partial credit, some passed and some not); 'signal' when it has."""
    if has_signal(group, tolerance):
        return "signal"
    passed = [r.verdict.passed for r in group.rollouts if r.verdict is not None and r.verdict.judged]
    if len(passed) < 2:
        return "unjudged"
    if all(passed):
        return "all_right"
    return "all_equal" if any(passed) else "all_wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroVarianceCounts:
    """Groups by kind. All-right calls for harder prompts, all-wrong is a warning: never one figure."""

    signal: int = 0
    all_right: int = 0
    all_wrong: int = 0
    all_equal: int = 0
    unjudged: int = 0

    @property
    def total(self) -> int:
        return self.signal + self.all_right + self.all_wrong + self.all_equal + self.unjudged

    @property
    def zero_variance_frac(self) -> float:
        """Share of groups without signal; 0 of no groups is 0."""
        return 1 - self.signal / self.total if self.total else 0.0


def count_kinds(groups: Sequence[Group], tolerance: float = TOLERANCE) -> ZeroVarianceCounts:
    """Count the groups by kind."""
    found: dict[str, int] = Counter(kind_of(group, tolerance) for group in groups)
    return ZeroVarianceCounts(**found)


def keep(group: Group, tolerance: float = TOLERANCE) -> Group | None:
    """The group as it is: it goes through the model and counts in every denominator."""
    return group


def shrink(group: Group, tolerance: float = TOLERANCE) -> Group | None:
    """The group keeps its place in the step but trains nothing and counts in no denominator (ScaleRL, arXiv
    2510.13786: the effective batch shrinks, nothing is sampled again)."""
    kind = kind_of(group, tolerance)
    return group if kind == "signal" else replace(group, signal=False, drop_reason=kind)


def refill(group: Group, tolerance: float = TOLERANCE) -> Group | None:
    """None for a group without signal: its slot goes back to admission (DAPO's dynamic sampling, arXiv 2503.14476
    section 3.2). How often is the caller's to bound."""
    return group if has_signal(group, tolerance) else None


RULES: Mapping[str, Callable[..., Group | None]] = {"keep": keep, "shrink": shrink, "refill": refill}
"""``algorithm.zero_variance`` -> what happens to a finished group, on its unshaped rewards: rule(group, tolerance)."""
