"""A forecast of a run's end, as it was said after one of its evaluations. Plain values, loaded without scipy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from headrace.errors import DataError

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeForecast:
    """What was said after the evaluation of ``version``, when training had cost ``compute`` (in ``unit``).

    ``value`` and ``interval`` are the pass rate expected at step ``target_step``, taken to be reached at
    ``target_compute``; None when nothing was said, and ``reasons`` say why. ``A``, ``B``, ``C_mid``, ``R0`` and
    ``interval_A`` are the fit's, None without one; ``level`` is that of both intervals, ``num_points`` the evaluations
    fitted.
    """

    version: int
    compute: float
    unit: str
    target_step: int
    target_compute: float | None = None
    num_points: int
    value: float | None = None
    interval: Interval | None = None
    level: float
    identified: bool = False
    reasons: tuple[str, ...] = ()
    A: float | None = None
    B: float | None = None
    C_mid: float | None = None
    R0: float | None = None
    interval_A: Interval | None = None  # noqa: N815

    @property
    def is_forecast(self) -> bool:
        """Whether it is about a step still to come; the fit at the end of a run is not."""
        return self.version < self.target_step

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> MadeForecast:
        """Read back ``to_json``; other keys are ignored. Raises ``DataError`` when one is missing."""
        missing = [field.name for field in fields(cls) if field.name not in row]
        if missing:
            raise DataError(f"a stored forecast lacks {', '.join(missing)}")
        said = {field.name: row[field.name] for field in fields(cls)}
        for name in ("interval", "interval_A"):
            said[name] = None if said[name] is None else tuple(said[name])
        return cls(**said | {"reasons": tuple(said["reasons"])})
