"""``forecasts.jsonl``: what a run said about its own end, one line an evaluation, kept as it was said.

Line: ``step`` and ``attempt`` (see attempts.py) and the fields of ``scaling.made.MadeForecast``.
"""

from __future__ import annotations

import json
from pathlib import Path

from headrace.errors import DataError
from headrace.scaling.made import MadeForecast
from headrace.tracking.attempts import without_superseded
from headrace.tracking.jsonl import LineLog, finite, read_lines

FORECASTS_FILE = "forecasts.jsonl"


class ForecastLog:
    """Appends forecasts to ``forecasts.jsonl``; a line survives a kill."""

    def __init__(self, run_folder: str | Path, *, attempt: int = 1) -> None:
        self._attempt = attempt
        self._lines = LineLog(Path(run_folder) / FORECASTS_FILE, "forecasts")

    def log(self, made: MadeForecast) -> None:
        row, _ = finite({"step": made.version, "attempt": self._attempt, **made.to_json()})
        self._lines.append(json.dumps(row, allow_nan=False))

    def close(self) -> None:
        self._lines.close()


def read_forecasts(run_folder: str | Path) -> list[MadeForecast]:
    """The forecasts of a run that are not superseded, ordered by version; of one version the last.

    [] for a run that stored none. Raises ``DataError`` for a line that is no forecast.
    """
    path = Path(run_folder) / FORECASTS_FILE
    try:
        made = [MadeForecast.from_json(row) for row in without_superseded(read_lines(path), run_folder)]
    except (DataError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    return sorted({one.version: one for one in made}.values(), key=lambda one: one.version)
