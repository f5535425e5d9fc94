"""Where a run that is under way will end: its evaluations so far in, a forecast of its last step out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import DataError
from headrace.scaling.defaults import COMPUTE_FIELDS
from headrace.scaling.estimate import Options
from headrace.scaling.fit import fit_runs
from headrace.scaling.forecast import forecast
from headrace.scaling.made import MadeForecast
from headrace.scaling.readers.run_log import points_from_evals
from headrace.scaling.result import Fit


def forecast_end(
    rows: Sequence[Mapping[str, Any]],
    num_steps: int,
    *,
    compute: str | None = None,
    score: str | None = None,
    options: Options | None = None,
) -> MadeForecast:
    """Fit the evaluations ``rows`` (lines of ``evals.jsonl`` that count, at least one) and forecast step ``num_steps``.

    ``compute`` and ``score`` name figures of the lines, by default those of ``headrace fit RUN``. Rows no curve can be
    fitted to are a forecast that says nothing, with the reason.
    """
    options, unit = options or Options(), compute or COMPUTE_FIELDS[0]
    ordered = sorted(rows, key=lambda row: int(row["version"]))
    last = ordered[-1]
    base: dict[str, Any] = {
        "version": int(last["version"]),
        "compute": float(last["compute"][unit]),
        "unit": unit,
        "target_step": num_steps,
        "target_compute": planned_compute(ordered, num_steps, unit),
        "num_points": len({row["version"] for row in ordered}),
        "level": options.level,
    }
    try:
        points = points_from_evals(ordered, name="the run", compute=compute, score=score)
        fit = fit_runs([points], options)
    except DataError as error:
        return MadeForecast(**base, reasons=(str(error),))
    said: dict[str, Any] = {name: _number(getattr(fit, name)) for name in ("A", "B", "C_mid", "R0")}
    fitted = MadeForecast(
        **base,
        **said,
        interval_A=None if said["A"] is None else fit.intervals["A"],
        identified=fit.identified,
        reasons=fit.reasons,
    )
    return _with_end(fitted, fit) if fit.identified else fitted


def planned_compute(rows: Sequence[Mapping[str, Any]], num_steps: int, unit: str) -> float | None:
    """What training will have cost at step ``num_steps``, in ``unit``, when a step goes on costing what it did lately.

    Lately is the later half of the run so far: completions get longer or shorter on the way. ``rows`` are evaluations
    ordered by version. None before a step was made.
    """
    last = rows[-1]
    version, spent = int(last["version"]), float(last["compute"][unit])
    if version >= num_steps:
        return spent
    earlier = [row for row in rows if 2 * int(row["version"]) <= version] or [rows[0]]
    since = version - int(earlier[-1]["version"])
    if since == 0:
        return None
    return spent + (num_steps - version) * (spent - float(earlier[-1]["compute"][unit])) / since


def _with_end(made: MadeForecast, fit: Fit) -> MadeForecast:
    if made.target_compute is None:
        return made
    said = forecast(fit, made.target_compute)
    return replace(made, value=said.value, interval=said.interval)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
