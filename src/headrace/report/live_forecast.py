"""The forecast of a run's end while it is under way: made after every evaluation, stored, shown."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.scaling.defaults import COMPUTE_FIELDS, LEVEL
from headrace.scaling.made import MadeForecast
from headrace.scaling.points import MIN_POINTS
from headrace.tracking.eval_log import read_evals
from headrace.tracking.forecast_log import ForecastLog

logger = logging.getLogger("headrace.report")


class LiveForecaster:
    """Fits the run's evaluations and forecasts step ``num_steps`` each time one comes; all forecasts are stored.

    It starts with the evaluations of earlier attempts that still count, so make it after the attempt has begun.
    scipy is loaded when there are enough evaluations. A forecast is no reason to lose a run: what goes wrong here is
    logged, and no more forecasts are made.
    """

    def __init__(self, run_folder: str | Path, num_steps: int, *, attempt: int = 1) -> None:
        self.newest: MadeForecast | None = None
        self._num_steps = num_steps
        self._rows = {int(row["version"]): _slim(row) for row in read_evals(run_folder)}
        self._log: ForecastLog | None = ForecastLog(run_folder, attempt=attempt)

    def take(self, row: Mapping[str, Any]) -> MadeForecast | None:
        """Take in one evaluation (a line of ``evals.jsonl``); returns what is said now, None when switched off."""
        if self._log is None:
            return None
        try:
            self._rows[int(row["version"])] = _slim(row)
            self.newest = self._make()
            self._log.log(self.newest)
        except Exception as error:
            logger.warning("no more forecasts, the run goes on; making one failed: %s: %s", type(error).__name__, error)
            self.newest = None
            self.close()
        return self.newest

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _make(self) -> MadeForecast:
        rows = [self._rows[version] for version in sorted(self._rows)]
        if len(rows) >= MIN_POINTS:
            from headrace.scaling.run_end import forecast_end

            return forecast_end(rows, self._num_steps)
        return too_few(rows, self._num_steps)


def too_few(rows: Sequence[Mapping[str, Any]], num_steps: int) -> MadeForecast:
    """What is said before there are enough evaluations for a fit."""
    last, unit = rows[-1], COMPUTE_FIELDS[0]
    return MadeForecast(
        version=int(last["version"]),
        compute=float(last["compute"][unit]),
        unit=unit,
        target_step=num_steps,
        num_points=len(rows),
        level=LEVEL,
        reasons=(f"{len(rows)} of the {MIN_POINTS} evaluations a fit needs",),
    )


def _slim(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "examples"}
