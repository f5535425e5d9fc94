"""``summary.json``: the figures of a finished run that people and scripts compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from headrace.errors import DataError
from headrace.tracking.jsonl import finite

SUMMARY_FILE = "summary.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run. Pass rates are held-out means in [0, 1], None when that evaluation was not made.

    ``wall_s`` is the whole run, ``train_wall_s`` the time from the first admission to the last update. Idle fractions
    are of ``train_wall_s``. ``num_orphans`` counts processes of the run that were alive after it ended; it must be 0.
    ``extra`` holds further keys; in the file they stand beside the others. Of a finished run they are ``max_lag`` (the
    bound), ``compute``, ``checkpoint_errors`` and ``forecast``: the last line of ``forecasts.jsonl``, here the fit of
    all evaluations, or the reasons why there is none.
    """

    pass_rate_before: float | None
    pass_rate_after: float | None
    wall_s: float
    train_wall_s: float
    num_steps: int
    max_lag_trained: int
    trainer_idle_frac: float
    generator_idle_frac: float
    num_orphans: int
    seed: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The flat mapping the file holds; non-finite numbers are None."""
        row = {name: getattr(self, name) for name in _NAMES}
        clash = sorted(set(row) & set(self.extra))
        if clash:
            raise ValueError(f"extra figures may not replace {', '.join(clash)}")
        return dict(finite({**row, **self.extra})[0])


_NAMES = tuple(f.name for f in fields(RunSummary) if f.name != "extra")


def write_summary(run_folder: str | Path, summary: RunSummary) -> Path:
    """Write ``summary.json`` (complete or not there) and return its path."""
    path = Path(run_folder) / SUMMARY_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(summary.to_json(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)
    return path


def read_summary(run_folder: str | Path) -> RunSummary:
    """The summary of a finished run; ``DataError`` when there is none or it lacks a figure."""
    path = Path(run_folder) / SUMMARY_FILE
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{run_folder} has no {SUMMARY_FILE}: not a run folder, or the run did not finish") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    missing = [name for name in _NAMES if name not in row]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}")
    known = {name: row.pop(name) for name in _NAMES}
    return RunSummary(**known, extra=row)
