"""Random numbers by name: each is a function of the scenario's seed and what it is for, never of who asked first."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from headrace.pipeline.seeds import derive_seed

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Chance:
    """``uniform("train", 3)`` is the same number however the run went."""

    seed: int

    def uniform(self, *what: int | str) -> float:
        """In (0, 1)."""
        return (derive_seed(self.seed, "chance", *what) + 0.5) / 2**63

    def delay(self, mean_s: float, *what: int | str) -> float:
        """Seconds, uniform in [0.5, 1.5] times the mean."""
        return mean_s * (0.5 + self.uniform(*what)) if mean_s > 0 else 0.0

    def normal(self, *what: int | str) -> float:
        """Standard normal."""
        return _NORMAL.inv_cdf(min(max(self.uniform(*what), 1e-12), 1 - 1e-12))
