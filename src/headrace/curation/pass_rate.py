"""No-Positive-Resampling: prompts that are solved nearly always retire for good (ScaleRL, arXiv 2510.13786 section 3).

The paper retires a prompt whose pass rate over its whole history reaches .9, from the next epoch on. It names no least
count, and without one luck decides: at a true pass rate of .8 one group of 16 retires the prompt with probability .14
(.09 at 32 completions, .018 at 64). An article's form looks at the last 100 completions and wants the rate to stay
there. Both are a ``PassRateRule``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from headrace.records import Group

THRESHOLD = 0.9
GROUPS_BEFORE = 4
"""Least count in groups, where none is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRateRule:
    """When a prompt retires: ``passes / n >= threshold`` over the newest ``window`` judged completions (None: all),
    with ``n >= min_count``, at ``patience`` group completions in a row.

    Raises ``ValueError`` for a rule that can never, or always, be met.
    """

    min_count: int
    threshold: float = THRESHOLD
    window: int | None = None
    patience: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold {self.threshold} lies outside (0, 1]")
        if self.min_count < 1 or self.patience < 1:
            raise ValueError(f"min_count {self.min_count} and patience {self.patience} must be at least 1")
        if self.window is not None and self.window < self.min_count:
            raise ValueError(f"window {self.window} never holds min_count {self.min_count} completions")

    def met(self, passes: int, n: int) -> bool:
        """Whether the counts are enough, in whole numbers (10 passes >= 9 n for .9): no rounding decides a tie."""
        share = Fraction(self.threshold).limit_denominator(10**6)
        return n >= self.min_count and passes * share.denominator >= n * share.numerator


def least_count(group_size: int, window: int | None = None) -> int:
    """``min_count`` where none is given: four groups, and never more than a window holds."""
    wanted = GROUPS_BEFORE * group_size
    return wanted if window is None else min(wanted, window)


def paper_rule(group_size: int) -> PassRateRule:
    """The paper's rule, with a least count of four groups."""
    return PassRateRule(min_count=least_count(group_size))


def article_rule(group_size: int) -> PassRateRule:
    """The newest 100 completions, at two group completions in a row; a least count of four groups."""
    return PassRateRule(min_count=least_count(group_size, 100), window=100, patience=2)


def outcomes(group: Group, pass_threshold: float | None = None) -> list[bool]:
    """Whether each judged completion passed: the verdict, or a reward of at least ``pass_threshold``."""
    verdicts = [r.verdict for r in group.rollouts if r.verdict is not None and r.verdict.reward is not None]
    if pass_threshold is None:
        return [v.passed for v in verdicts]
    return [v.reward is not None and v.reward >= pass_threshold for v in verdicts]


@dataclass(slots=True)
class _History:
    """Of one prompt. ``recent`` is kept with a window only; ``streak`` counts groups in a row that met the rule."""

    passes: int = 0
    n: int = 0
    streak: int = 0
    recent: deque[bool] = field(default_factory=deque)

    def add(self, results: Iterable[bool], window: int | None) -> None:
        for passed in results:
            self.passes += passed
            self.n += 1
            if window is None:
                continue
            self.recent.append(passed)
            if len(self.recent) > window:
                self.passes -= self.recent.popleft()
                self.n -= 1


class PassRateMemory:
    """Pass rates of a run by prompt (key: hash of prompt and gold answer), and the prompts that retired.

    Every judged training completion enters, of filtered and lag-dropped groups too; evaluation never does. Groups may
    finish in any order and enter in the order of their admission, which numbers all groups from 0 without gaps: so
    what is remembered does not depend on timing.
    """

    def __init__(self, rule: PassRateRule) -> None:
        self.rule = rule
        self._histories: dict[str, _History] = {}
        self._retired: dict[str, None] = {}  # in the order they retired
        self._next = 0
        self._early: dict[int, tuple[str, tuple[bool, ...]] | None] = {}  # None: that group never finished

    def record(self, admission: int, key: str, results: Sequence[bool]) -> list[str]:
        """A group finished: ``results`` of its judged completions. Returns the prompts that retire now.

        A group that was recorded before (it was sampled again after a resume) is ignored.
        """
        return self._take(admission, (key, tuple(results)))

    def skip(self, admission: int) -> list[str]:
        """A group was given up unfinished. Returns the prompts that retire now (of later groups that waited for it)."""
        return self._take(admission, None)

    def counts(self, key: str) -> tuple[int, int]:
        """(passes, completions) that the rule looks at; (0, 0) for a prompt unknown or retired."""
        history = self._histories.get(key, _History())
        return history.passes, history.n

    @property
    def retired(self) -> tuple[str, ...]:
        """Keys in the order they retired."""
        return tuple(self._retired)

    def is_retired(self, key: str) -> bool:
        return key in self._retired

    def to_dict(self) -> dict[str, Any]:
        """Plain state for a checkpoint."""
        return {
            "histories": {
                key: [h.passes, h.n, h.streak, "".join("01"[bit] for bit in h.recent)]
                for key, h in self._histories.items()
            },
            "retired": list(self._retired),
            "next": self._next,
            "early": [[a, *((e[0], list(e[1])) if e else (None, []))] for a, e in sorted(self._early.items())],
        }

    @classmethod
    def from_dict(cls, rule: PassRateRule, state: Mapping[str, Any]) -> PassRateMemory:
        """The memory that ``to_dict`` wrote, under the same rule."""
        memory = cls(rule)
        for key, (passes, n, streak, bits) in state["histories"].items():
            memory._histories[key] = _History(passes, n, streak, deque(bit == "1" for bit in bits))
        memory._retired = dict.fromkeys(state["retired"])
        memory._next = state["next"]
        memory._early = {a: None if key is None else (key, tuple(results)) for a, key, results in state["early"]}
        return memory

    def _take(self, admission: int, entry: tuple[str, tuple[bool, ...]] | None) -> list[str]:
        if admission < self._next:
            return []
        self._early.setdefault(admission, entry)
        found = []
        while self._next in self._early:
            due = self._early.pop(self._next)
            self._next += 1
            if due is not None and self._judge(*due):
                found.append(due[0])
        return found

    def _judge(self, key: str, results: tuple[bool, ...]) -> bool:
        """Add one group's results; True when its prompt retires by them. No result changes nothing."""
        if not results or key in self._retired:
            return False
        history = self._histories.setdefault(key, _History())
        history.add(results, self.rule.window)
        history.streak = history.streak + 1 if self.rule.met(history.passes, history.n) else 0
        if history.streak < self.rule.patience:
            return False
        self._retired[key] = None
        del self._histories[key]
        return True
