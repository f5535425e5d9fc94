"""Learning curves: fit a saturating sigmoid to (compute, held-out pass rate), forecast, and compare recipes.

Names are imported when they are asked for, so that a run that cannot fit a curve yet does not load scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.scaling.estimate import Options
    from headrace.scaling.fit import fit_curve, fit_runs
    from headrace.scaling.points import Points, checked_points
    from headrace.scaling.result import Fit

__all__ = ["Fit", "Options", "Points", "checked_points", "fit_curve", "fit_runs"]

_HOMES = {
    "Fit": "result",
    "Options": "estimate",
    "Points": "points",
    "checked_points": "points",
    "fit_curve": "fit",
    "fit_runs": "fit",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
