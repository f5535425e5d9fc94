"""Learning curves: fit a saturating sigmoid to (compute, held-out pass rate), forecast, and compare recipes."""

from headrace.scaling.estimate import Options
from headrace.scaling.fit import fit_curve, fit_runs
from headrace.scaling.points import Points, checked_points
from headrace.scaling.result import Fit

__all__ = ["Fit", "Options", "Points", "checked_points", "fit_curve", "fit_runs"]
