"""Learning-rate schedule, counted in applied updates (lag is counted in steps)."""

from __future__ import annotations


def warmup_updates(warmup: int | float, total_updates: int) -> int:
    """Length of the warm-up in updates: an int as given, a float as that fraction of ``total_updates``, rounded."""
    return warmup if isinstance(warmup, int) else round(warmup * total_updates)


def warmup_factor(update: int, warmup: int) -> float:
    """Factor on the peak learning rate of update ``update`` (from 0): linear, 1/warmup at first, then constant 1.

    With ``warmup`` 4: .25, .5, .75, 1, 1, ... The first update is never at learning rate 0.
    """
    return min(1.0, (update + 1) / warmup) if warmup > 0 else 1.0
