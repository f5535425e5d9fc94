"""Characters and number formats of everything the reports print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

UNKNOWN = "-"  # stands where a figure is not known (yet)


class Glyphs(NamedTuple):
    """Signs a console can show; a console without Unicode gets plain ones."""

    arrow: str
    dot: str
    bars: str  # from empty to full


UNICODE = Glyphs(arrow="→", dot="·", bars="▁▂▃▄▅▆▇█")
ASCII = Glyphs(arrow="->", dot="-", bars="_.-=+*#@")


def glyphs_for(encoding: str) -> Glyphs:
    """The signs for a console of this encoding (``console.encoding``)."""
    return UNICODE if encoding.lower().replace("_", "-").startswith("utf") else ASCII


def sparkline(values: Sequence[float], width: int, *, bars: str = UNICODE.bars) -> str:
    """A curve of values in [0, 1] in ``width`` characters at most; longer series are averaged in equal spans.

    The scale is fixed, so that the height says how good a run is and not only how it moves.
    """
    if width < 1 or not values:
        return ""
    count = min(width, len(values))
    edges = [i * len(values) // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    return "".join(bars[min(len(bars) - 1, max(0, int(mean * len(bars))))] for mean in means)


def figure(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals, a dash when it is not known."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A fraction as whole percent."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value * 100:.0f} %"


def thousands(value: float | None) -> str:
    """A rate in at most five characters: 940, 12.3k, 123k, 1.20M."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 999.5:
        return f"{value:.0f}"
    if value < 999_500:
        return f"{value / 1000:.1f}k" if value < 99_950 else f"{value / 1000:.0f}k"
    return f"{value / 1e6:.2f}M"


def clock_time(seconds: float | None) -> str:
    """Seconds as m:ss or h:mm:ss."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    minutes, s = divmod(max(0, round(seconds)), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m}:{s:02d}"
