"""``evals.jsonl``: one line an evaluation.

Line: ``version`` (of the weights evaluated), ``step`` (the same number; logs are joined on it), ``attempt``, ``time_s``
(run time when the evaluation finished), ``temperature``, the figures of ``metrics/evaluation.py`` (``mean_at_n``,
``pass_at_k``, ``standard_error``, ...), ``compute`` (what training had cost when the version was made) and ``examples``
(a few completions, the same prompts every time).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.metrics.evaluation import Example
from headrace.tracking.attempts import without_superseded
from headrace.tracking.jsonl import LineLog, finite, read_lines
from headrace.tracking.metrics_log import run_clock

EVALS_FILE = "evals.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """What a run had spent on training when a version was made; evaluation itself is not counted.

    ``device_s`` counts every device (on CPU: every compute thread) of trainer and generators, idle or not. ``flops``
    is an estimate, 2 x parameters a token sampled and 6 x parameters a token trained.
    """

    device_s: float = 0.0
    flops: float = 0.0
    tokens_generated: int = 0
    tokens_trained: int = 0
    steps: int = 0


class EvalLog:
    """Appends evaluations to ``evals.jsonl``; a line survives a kill."""

    def __init__(
        self, run_folder: str | Path, *, attempt: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._attempt = attempt
        self._clock = run_clock(run_folder, clock)
        self._lines = LineLog(Path(run_folder) / EVALS_FILE, "evaluations")

    def log(
        self,
        version: int,
        stats: Mapping[str, Any],
        *,
        temperature: float,
        compute: Compute,
        examples: Sequence[Example] = (),
        time_s: float | None = None,
    ) -> dict[str, Any]:
        """Append one evaluation and return the line as written. ``stats`` come from ``evaluation_stats``.

        ``time_s`` is the run's own time, by default that of this call.
        """
        row, _ = finite(
            {
                "version": version,
                "step": version,
                "attempt": self._attempt,
                "time_s": round(self._clock() if time_s is None else time_s, 3),
                "temperature": temperature,
                **stats,
                "compute": asdict(compute),
                "examples": [example.to_json() for example in examples],
            }
        )
        self._lines.append(json.dumps(row, allow_nan=False))
        return dict(row)

    @property
    def num_unwritten(self) -> int:
        """Evaluations whose line waits for space on a full disk."""
        return self._lines.num_unwritten

    def close(self) -> None:
        self._lines.close()


def read_evals(run_folder: str | Path) -> list[dict[str, Any]]:
    """The evaluations of a run that are not superseded, ordered by version, then as written."""
    rows = without_superseded(read_lines(Path(run_folder) / EVALS_FILE), run_folder)
    return sorted(rows, key=lambda row: int(row["version"]))


def read_examples(row: Mapping[str, Any]) -> list[Example]:
    """The example completions of one line of ``evals.jsonl``."""
    return [Example(**example) for example in row.get("examples", ())]
