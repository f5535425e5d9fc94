"""How good a run's earlier forecasts of its end were, now that the end is there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from headrace.errors import DataError
from headrace.scaling.estimate import Options
from headrace.scaling.made import Interval, MadeForecast
from headrace.scaling.points import MIN_POINTS
from headrace.scaling.readers.run_log import evaluation_error
from headrace.scaling.run_end import forecast_end


@dataclass(frozen=True, slots=True)
class Tested:
    """A forecast, and the evaluation of the step it was about: pass rate ``came`` with its standard error ``error``."""

    made: MadeForecast
    came: float
    error: float

    @property
    def miss(self) -> float | None:
        """Forecast minus what came; None when nothing was said."""
        return None if self.made.value is None else self.made.value - self.came

    @property
    def allowed(self) -> Interval | None:
        """The interval for the evaluation: that of the curve, with the evaluation's own error added in quadrature."""
        if self.made.value is None or self.made.interval is None:
            return None
        value, (low, high) = self.made.value, self.made.interval
        own = float(ndtri(0.5 + self.made.level / 2)) * self.error
        return value - math.hypot(value - low, own), value + math.hypot(high - value, own)

    @property
    def inside(self) -> bool | None:
        """Whether what came lies in ``allowed``; None when nothing was said."""
        ends = self.allowed
        return None if ends is None else ends[0] <= self.came <= ends[1]


@dataclass(frozen=True, slots=True)
class Backtest:
    """All forecasts of one run whose end came. ``remade`` says that they were made afterwards, each from the
    evaluations of its time. The forecasts of one run share most of their data, so they are right or wrong together.
    """

    name: str
    tests: tuple[Tested, ...]
    remade: bool
    why_remade: str = ""

    @property
    def said(self) -> tuple[Tested, ...]:
        """The tests of forecasts that said something."""
        return tuple(test for test in self.tests if test.made.value is not None)

    @property
    def num_inside(self) -> int:
        return sum(test.inside is True for test in self.said)

    @property
    def coverage(self) -> float | None:
        """Share of what was said that held what came; None when nothing was said."""
        return self.num_inside / len(self.said) if self.said else None

    @property
    def mean_miss(self) -> float | None:
        """Mean absolute miss of what was said."""
        return float(np.mean([abs(test.miss or 0.0) for test in self.said])) if self.said else None

    def to_json(self) -> dict[str, Any]:
        rows = [
            test.made.to_json() | {"came": test.came, "came_error": test.error, "inside": test.inside}
            for test in self.tests
        ]
        return {
            "run": self.name,
            "remade": self.remade,
            "why_remade": self.why_remade,
            "num_said": len(self.said),
            "num_inside": self.num_inside,
            "coverage": self.coverage,
            "mean_absolute_miss": self.mean_miss,
            "forecasts": rows,
        }


def judge(
    forecasts: Sequence[MadeForecast], rows: Sequence[Mapping[str, Any]], *, score: str | None = None
) -> tuple[Tested, ...]:
    """The forecasts whose step has been evaluated, with what came. ``rows`` are the run's evaluations that count.

    Left out are the fit at the end, which is no forecast, and attempts from fewer evaluations than a fit needs.
    """
    figure = score or "mean_at_n"
    came = {int(row["version"]): row for row in rows if row.get(figure) is not None}
    return tuple(
        Tested(made, float(came[made.target_step][figure]), evaluation_error(came[made.target_step]))
        for made in forecasts
        if made.is_forecast and made.num_points >= MIN_POINTS and made.target_step in came
    )


def remake(
    rows: Sequence[Mapping[str, Any]],
    *,
    compute: str | None = None,
    score: str | None = None,
    options: Options | None = None,
) -> list[MadeForecast]:
    """The forecasts of the last evaluated step that could have been made, each from the evaluations up to its own.

    Raises ``DataError`` when the run has too few evaluations for a single one.
    """
    figure = score or "mean_at_n"
    kept = {int(row["version"]): row for row in rows if row.get(figure) is not None}
    versions = sorted(kept)
    if len(versions) <= MIN_POINTS:
        raise DataError(
            f"{len(versions)} evaluations are too few: a forecast is made from {MIN_POINTS}, and tested on a later one"
        )
    return [
        forecast_end(
            [kept[version] for version in versions[:count]],
            versions[-1],
            compute=compute,
            score=score,
            options=options,
        )
        for count in range(MIN_POINTS, len(versions))
    ]
