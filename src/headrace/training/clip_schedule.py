"""The factor on the clip offsets of a step, when a recipe schedules them."""

from __future__ import annotations

from headrace.config.algorithm import ClipSchedule
from headrace.curation.schedules import clip_factor


def clip_scale(section: ClipSchedule | None, step: int, total_steps: int) -> float:
    """1 at first; ``section.factor`` at the end. Without a schedule always 1."""
    if section is None:
        return 1.0
    return clip_factor(section.factor, total_steps, shape=section.shape, final_frac=section.final_frac)(step)
