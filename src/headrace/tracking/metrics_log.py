"""``metrics.jsonl``: one line a step, always written.

Line: ``{"step": 12, "attempt": 1, "time_s": 31.4, "num_nonfinite": 0, "metrics": {"reward/mean": 0.52, ...}}``

``step`` is the trainer's version after the step (see attempts.py), ``time_s`` the run's own time, which goes on where
the last attempt stopped. A NaN or infinite value is written as null and counted in ``num_nonfinite``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.tracking.attempts import without_superseded
from headrace.tracking.jsonl import LineLog, finite, read_lines

METRICS_FILE = "metrics.jsonl"


class MetricsLog:
    """A ``Tracker`` that appends to ``metrics.jsonl``. Lines are not buffered: they survive a kill.

    ``clock`` gives seconds from any origin. ``num_nonfinite`` counts over the attempt.
    """

    name = "metrics.jsonl"

    def __init__(
        self, run_folder: str | Path, *, attempt: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.num_nonfinite = 0
        self._attempt = attempt
        self._clock = run_clock(run_folder, clock)
        self._lines = LineLog(Path(run_folder) / METRICS_FILE, "metrics")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics of one step."""
        values, num_nonfinite = finite(metrics)
        self.num_nonfinite += num_nonfinite
        row = {
            "step": int(step),
            "attempt": self._attempt,
            "time_s": round(self._clock(), 3),
            "num_nonfinite": num_nonfinite,
            "metrics": values,
        }
        self._lines.append(json.dumps(row, allow_nan=False))

    @property
    def num_unwritten(self) -> int:
        """Steps whose line waits for space on a full disk."""
        return self._lines.num_unwritten

    def close(self) -> None:
        self._lines.close()


def read_metrics(run_folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's ``metrics.jsonl`` that are not superseded, oldest first."""
    return without_superseded(read_lines(Path(run_folder) / METRICS_FILE), run_folder)


def run_clock(run_folder: str | Path, clock: Callable[[], float] = time.monotonic) -> Callable[[], float]:
    """A clock of the run's own time in seconds: it goes on from the last line of ``metrics.jsonl``, or from 0."""
    rows = read_lines(Path(run_folder) / METRICS_FILE)
    start = clock() - (float(rows[-1]["time_s"]) if rows else 0.0)
    return lambda: clock() - start
