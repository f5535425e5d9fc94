"""What changes during training as a function of the step. The learning rate counts applied updates instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Schedule = Callable[[int], float]
Shape = Literal["constant", "linear", "final"]


def warmup_updates(warmup: int | float, total_updates: int) -> int:
    """Length of the warm-up in updates: an int as given, a float as that fraction of ``total_updates``, rounded."""
    return warmup if isinstance(warmup, int) else round(warmup * total_updates)


def warmup_factor(update: int, warmup: int) -> float:
    """Factor on the peak learning rate of update ``update`` (from 0): linear, 1/warmup at first, then constant 1.

    With ``warmup`` 4: .25, .5, .75, 1, 1, ... The first update is never at learning rate 0.
    """
    return min(1.0, (update + 1) / warmup) if warmup > 0 else 1.0


def first_final_step(total_steps: int, final_frac: float) -> int:
    """First step of the last ``final_frac`` of ``total_steps``: 80 of 100 with .2. The part is rounded to whole steps.

    Raises ``ValueError`` unless the fraction lies in [0, 1].
    """
    if not 0 <= final_frac <= 1:
        raise ValueError(f"final_frac {final_frac} lies outside [0, 1]")
    return total_steps - round(final_frac * total_steps)


def scheduled(
    start: float, end: float, total_steps: int, *, shape: str = "linear", final_frac: float = 0.2
) -> Schedule:
    """A value for every step from 0: a sampling temperature, or the factor on a clip range.

    'constant' stays at ``start``; 'linear' goes evenly from ``start`` at step 0 to ``end`` at the last step; 'final' is
    ``start``, then ``end`` in the last ``final_frac`` of the steps. Beyond the last step the last value stays.
    Raises ``ValueError`` for another shape or without a step.
    """
    if shape not in ("constant", "linear", "final"):
        raise ValueError(f"shape {shape!r} is none of constant, linear, final")
    if total_steps < 1:
        raise ValueError(f"a schedule over {total_steps} steps has no step")
    last, first_final = max(total_steps - 1, 1), first_final_step(total_steps, final_frac)

    def value(step: int) -> float:
        if shape == "constant":
            return start
        if shape == "final":
            return end if step >= first_final else start
        part = min(max(step, 0), last) / last
        return end if part == 1 else start + (end - start) * part

    return value


def clip_factor(factor: float, total_steps: int, *, shape: str = "linear", final_frac: float = 0.2) -> Schedule:
    """Multiple of a clip range's offsets at each step, 1 at first and ``factor`` in the end.

    Offsets are distances from a ratio of 1; a cap c given as a ratio becomes ``scaled_cap(c, factor)``.
    """
    return scheduled(1.0, factor, total_steps, shape=shape, final_frac=final_frac)


def scaled_cap(cap: float, factor: float) -> float:
    """A bound on the ratio whose distance from 1 is multiplied: 5 at half is 3, .8 at half is .9."""
    return 1.0 + factor * (cap - 1.0)
