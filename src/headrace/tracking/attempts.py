"""Attempts of a run: which rows of its logs still count after a resume.

A run that is resumed from a checkpoint trains some steps again. Rows are never rewritten; ``attempts.jsonl`` holds one
line an attempt, ``{"attempt": 2, "resume_step": 20, "unix_time": ...}``, and a row is *superseded* when a later attempt
resumed before it: ``row.step > resume_step``.

Throughout the logs ``step`` counts steps completed, i.e. it is the trainer's version *after* the step (the first step
writes 1; what was evaluated before training has step 0; a checkpoint of version 20 resumes at step 20).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.tracking.jsonl import append_line, read_lines

ATTEMPTS_FILE = "attempts.jsonl"


def begin_attempt(run_folder: str | Path, resume_step: int = 0) -> int:
    """Record that the run starts, or starts again at the checkpoint of version ``resume_step``; return its number.

    Attempts are numbered from 1.
    """
    path = Path(run_folder) / ATTEMPTS_FILE
    attempt = 1 + max((int(row["attempt"]) for row in read_lines(path)), default=0)
    append_line(path, json.dumps({"attempt": attempt, "resume_step": resume_step, "unix_time": round(time.time(), 3)}))
    return attempt


def last_steps(run_folder: str | Path) -> dict[int, float]:
    """The last step of each attempt that counts: the lowest step at which a later attempt resumed, or infinity."""
    rows = sorted(read_lines(Path(run_folder) / ATTEMPTS_FILE), key=lambda row: int(row["attempt"]), reverse=True)
    cuts: dict[int, float] = {}
    cut = math.inf
    for row in rows:
        cuts[int(row["attempt"])] = cut
        cut = min(cut, float(row["resume_step"]))
    return cuts


def still_counts(row: Mapping[str, Any], cuts: Mapping[int, float]) -> bool:
    """Whether a log row with ``step`` and ``attempt`` is not superseded."""
    return float(row["step"]) <= cuts.get(int(row["attempt"]), math.inf)


def without_superseded(rows: Iterable[Mapping[str, Any]], run_folder: str | Path) -> list[dict[str, Any]]:
    """The rows that count, in the order they were written."""
    cuts = last_steps(run_folder)
    return [dict(row) for row in rows if still_counts(row, cuts)]
