"""What a fit is: estimates, intervals, and whether they may be used beyond the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headrace.scaling.curve import Array, log_compute, sigmoid
from headrace.scaling.estimate import PARAMETERS, Options
from headrace.scaling.least_squares import predict
from headrace.scaling.noise import Noise
from headrace.scaling.points import Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted curve, or a refusal.

    ``A``, ``R0`` pass rates, ``C_mid`` in ``unit``, ``B`` without unit; all NaN when there was no rise to fit.
    ``intervals``: for A, B, C_mid and R0 the two ends at ``level``. ``identified`` says whether the curve may be used
    beyond the data; if not, ``reasons`` say why. ``notes`` are worth knowing and forbid nothing. ``theta`` (4,) and
    ``draws`` (D, 4) are (R0, A, ln C_mid, ln B); ``run_thetas`` (K, 4) the fits of single seeds, empty for one run.
    """

    A: float
    B: float
    C_mid: float
    R0: float
    intervals: dict[str, tuple[float, float]]
    identified: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    options: Options
    unit: str
    runs: tuple[Points, ...]
    noise: Noise
    theta: Array
    draws: Array
    run_thetas: Array
    sum_of_squares: float
    box: tuple[Array, Array]

    @property
    def largest_compute(self) -> float:
        return max(float(run.compute[-1]) for run in self.runs)

    def at(self, compute: ArrayLike) -> Array:
        """The fitted pass rate, same shape as ``compute``. It does not ask whether the curve is identified."""
        return sigmoid(compute, self.A, self.B, self.C_mid, self.R0)

    def drawn_at(self, compute: ArrayLike) -> Array:
        """The pass rate of every bootstrap draw, (D, len(compute))."""
        c = np.atleast_1d(np.asarray(compute, dtype=np.float64))
        return predict(log_compute(c), self.draws, np.full(len(self.draws), np.inf))

    def band(self, compute: ArrayLike) -> tuple[Array, Array]:
        """Pointwise band of the curve at ``options.level``: lower and upper, (len(compute),)."""
        tail = 0.5 - self.options.level / 2
        low, high = np.quantile(self.drawn_at(compute), [tail, 1 - tail], axis=0)
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not a number becomes None."""
        values = {name: getattr(self, name) for name in PARAMETERS}
        ends = {f"interval_{name}": list(self.intervals[name]) for name in PARAMETERS}
        said: dict[str, Any] = {
            "identified": self.identified,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "method": self.options.method,
            "interval_method": self.options.interval,
            "level": self.options.level,
            "unit": self.unit,
            "runs": [run.name for run in self.runs],
            "num_points": sum(len(run) for run in self.runs),
            "largest_compute": self.largest_compute,
            "error_excess": self.noise.excess,
            "error_wander": self.noise.wander,
        }
        return {name: _no_nan(value) for name, value in (values | ends).items()} | said


def _no_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_no_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
