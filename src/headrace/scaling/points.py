"""Points of a learning curve: (compute, held-out pass rate), checked before anything is fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from headrace.errors import DataError

if TYPE_CHECKING:
    from headrace.scaling.curve import Array

MIN_POINTS = 6  # four parameters and at least two points to judge them by


@dataclass(frozen=True, slots=True)
class Points:
    """Evaluations of one run, ordered by compute; made by ``checked_points``.

    ``compute`` (N,) >= 0 in ``unit``; ``score`` (N,) shares in 0..1; ``n`` (N,) completions behind each score and
    ``error`` (N,) their standard errors, where known (``error`` wins). ``name`` is what messages call the run.
    """

    compute: Array
    score: Array
    n: Array | None
    error: Array | None
    unit: str
    name: str

    def __len__(self) -> int:
        return len(self.compute)

    def part(self, keep: np.ndarray) -> Points:
        """The points where ``keep`` (N,) is true."""
        n = None if self.n is None else self.n[keep]
        error = None if self.error is None else self.error[keep]
        return Points(self.compute[keep], self.score[keep], n, error, self.unit, self.name)

    def window(self, start: float = 0.0, end: float = np.inf) -> Points:
        """The points with ``start`` <= compute <= ``end``; the evaluation at C = 0 always stays."""
        return self.part((self.compute == 0) | ((self.compute >= start) & (self.compute <= end)))

    def beyond(self, end: float) -> Points:
        """The points with compute > ``end``: what a fit up to ``end`` is tested on."""
        return self.part(self.compute > end)


def checked_points(
    compute: ArrayLike,
    score: ArrayLike,
    *,
    n: ArrayLike | None = None,
    error: ArrayLike | None = None,
    unit: str = "compute",
    name: str = "the curve",
) -> Points:
    """``Points`` in the order of compute. ``n`` and ``error`` may be one number for all.

    Raises ``DataError`` for lengths that differ, values that are not finite, negative compute, scores outside 0..1,
    ``n`` < 1, errors <= 0, and several scores at C = 0. A row at C = 0 that is there twice counts once.
    """
    c, y = _column(compute, "compute", name), _column(score, "score", name)
    if len(c) != len(y):
        raise DataError(f"{name}: {len(c)} values of compute but {len(y)} scores")
    count = None if n is None else _column(n, "n", name, len(c))
    sigma = None if error is None else _column(error, "error", name, len(c))
    _demand(c >= 0, c, "compute", "is negative", name)
    _demand((y >= 0) & (y <= 1), y, "score", "is outside 0..1 (pass rates are shares, not percent)", name)
    if count is not None:
        _demand(count >= 1, count, "n", "is below 1", name)
    if sigma is not None:
        _demand(sigma > 0, sigma, "error", "is not above 0", name)
    keep = _once_at_zero(c, y, name)
    order = np.argsort(c[keep], kind="stable")
    rows = np.flatnonzero(keep)[order]
    points = Points(c, y, count, sigma, unit, name)
    return points.part(rows)


def check_fittable(points: Points) -> None:
    """Raise ``DataError`` when there are too few points to fit a sigmoid to."""
    if len(points) < MIN_POINTS:
        raise DataError(
            f"{points.name}: {len(points)} points are too few for a curve of four parameters; "
            f"at least {MIN_POINTS} are needed (evaluate more often)"
        )
    if np.count_nonzero(np.unique(points.compute)) < MIN_POINTS - 2:
        raise DataError(f"{points.name}: the points lie at fewer than {MIN_POINTS - 2} different amounts of compute")


def check_same_unit(runs: Sequence[Points]) -> str:
    """The unit all runs share. Raises ``DataError`` when they differ."""
    units = {run.unit: run.name for run in reversed(runs)}
    if len(units) > 1:
        said = ", ".join(f"'{unit}' in {name}" for unit, name in units.items())
        raise DataError(f"compute is measured in different units ({said}); name one that all runs have with --compute")
    return runs[0].unit


def _column(values: ArrayLike, what: str, name: str, length: int | None = None) -> Array:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {what} is not a list of numbers ({error})") from None
    if length is not None:
        if column.ndim == 0:
            column = np.full(length, float(column))
        elif len(column) != length:
            raise DataError(f"{name}: {length} points but {len(column)} values of {what}")
    if column.ndim != 1:
        raise DataError(f"{name}: {what} must be one-dimensional; found shape {column.shape}")
    _demand(np.isfinite(column), column, what, "is not a finite number", name)
    return column


def _demand(good: np.ndarray, values: Array, what: str, complaint: str, name: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(f"{name}: {what} {complaint}: {values[row]:g} in row {row + 1}")


def _once_at_zero(compute: Array, score: Array, name: str) -> np.ndarray:
    """Which rows to keep: all, but the evaluation at C = 0 once."""
    zeros = np.flatnonzero(compute == 0)
    different = np.unique(score[zeros])
    if len(different) > 1:
        listed = ", ".join(f"{value:g}" for value in different[:4])
        raise DataError(
            f"{name}: {len(zeros)} rows at compute 0 have different scores ({listed}); a run starts once. Runs of "
            "several seeds are given as several files"
        )
    keep = np.ones(len(compute), dtype=bool)
    keep[zeros[1:]] = False
    return keep
