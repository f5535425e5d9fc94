"""The bundled task: sums and differences of whole numbers, as an endless seeded stream of problems.

A problem is a pure function of ``(seed, split, index)``, so nothing is stored and any row can be made again at any
time. The split is decided by a hash of the problem itself, never of the seed or index: whatever the seeds, a problem
of the train split cannot turn up in the held-out split.

    >>> make_problem(0, split="train", seed=0) == make_problem(0, split="train", seed=0)
    True
    >>> Problem(347, "+", 85).prompt, Problem(347, "+", 85).answer
    ('347+85=', '432')
    >>> extract_answer("7+5=12 4+8+1=13 3+1=4#432")
    '432'
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

Split = Literal["train", "held_out"]

ANSWER_MARKER = "#"
"""What comes after the last marker of a completion is its answer."""

HELD_OUT_PERCENT = 10
"""Share of all problems that the hash puts into the held-out split, in percent."""

DIGITS_PERCENT = {2: 35, 3: 35, 4: 20, 5: 10}
"""How often the longer number of a problem has this many digits, in percent (sums to 100)."""

_ANSWER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """``left operator right``, both numbers >= 1; a difference is never negative (left >= right)."""

    left: int
    operator: Literal["+", "-"]
    right: int

    @property
    def prompt(self) -> str:
        """What the policy reads, such as ``"347+85="`` (5 to 12 characters)."""
        return f"{self.left}{self.operator}{self.right}="

    @property
    def answer(self) -> str:
        """The right answer in decimal digits, without leading zeros (1 to 6 characters)."""
        return gold(self)


def gold(problem: Problem) -> str:
    """The right answer of ``problem`` in decimal digits."""
    if problem.operator == "+":
        return str(problem.left + problem.right)
    return str(problem.left - problem.right)


def split_of(problem: Problem) -> Split:
    """The split ``problem`` belongs to, for every seed. ``85+347`` goes where ``347+85`` goes: it is the same sum."""
    low, high = sorted((problem.left, problem.right))
    bucket = _random_word("split", problem.operator, low, high) % 100
    return "held_out" if bucket < HELD_OUT_PERCENT else "train"


def make_problem(index: int, *, split: Split, seed: int) -> Problem:
    """Problem number ``index`` (>= 0, no upper end) of a split. Small problems come up more than once."""
    if index < 0:
        raise ValueError(f"index is {index}; problems are numbered from 0")
    if split not in get_args(Split):
        raise ValueError(f"split is {split!r}; allowed: {', '.join(get_args(Split))}")
    attempt = 0
    while True:
        problem = _draw("problem", seed, split, index, attempt)
        if split_of(problem) == split:
            return problem
        attempt += 1


@dataclass(frozen=True, slots=True)
class ArithmeticSource:
    """The rows of one split: ``source[i]`` is ``{"prompt", "answer", "operator", "num_digits"}``, for any i >= 0.

    ``num_digits`` is that of the longer number, the main measure of how long a worked solution gets.
    """

    split: Split = "train"
    seed: int = 0

    def __getitem__(self, index: int) -> dict[str, str | int]:
        problem = make_problem(index, split=self.split, seed=self.seed)
        return {
            "prompt": problem.prompt,
            "answer": problem.answer,
            "operator": problem.operator,
            "num_digits": len(str(max(problem.left, problem.right))),
        }

    def __iter__(self) -> Iterator[dict[str, str | int]]:
        """Rows 0, 1, 2, ... without end."""
        index = 0
        while True:
            yield self[index]
            index += 1


def extract_answer(completion: str) -> str | None:
    """The number after the last ``#``, as written; None when there is no marker or anything but one number follows.

    White space around the number is ignored. Naming several answers never helps: only the last one is read, and
    ``"#12 13"`` has none.
    """
    _, marker, tail = completion.rpartition(ANSWER_MARKER)
    tail = tail.strip()
    return tail if marker and _ANSWER.fullmatch(tail) else None


def _draw(*counter: object) -> Problem:
    """A problem of either split: lengths by ``DIGITS_PERCENT``, the shorter number's length uniform, digits uniform."""
    operator: Literal["+", "-"] = "+" if _random_word(*counter, "operator") % 2 else "-"
    percentile = _random_word(*counter, "digits") % 100
    num_digits = list(DIGITS_PERCENT)[bisect_right(list(accumulate(DIGITS_PERCENT.values())), percentile)]
    longer = _number(num_digits, *counter, "longer")
    shorter = _number(1 + _random_word(*counter, "shorter digits") % num_digits, *counter, "shorter")
    swap = _random_word(*counter, "swap") % 2
    if operator == "-":
        return Problem(max(longer, shorter), "-", min(longer, shorter))
    return Problem(shorter, "+", longer) if swap else Problem(longer, "+", shorter)


def _number(num_digits: int, *counter: object) -> int:
    """A number >= 1 of exactly ``num_digits`` digits."""
    lowest = 10 ** (num_digits - 1)
    return lowest + _random_word(*counter) % (9 * lowest)


def _random_word(*counter: object) -> int:
    """64 random bits that depend on the counter alone, the same on every machine and in every version."""
    digest = hashlib.blake2b("/".join(map(str, counter)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
