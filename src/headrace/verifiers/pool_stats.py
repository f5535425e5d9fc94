"""Counts and times of a verifier pool, for metrics and for the report on slow verifiers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from headrace.records import Verdict

_KEPT = 20_000


@dataclass(slots=True)
class PoolStats:
    """Judgements since the pool started; times are of the newest 20,000."""

    num_judged: int = 0
    num_errors: int = 0
    num_timeouts: int = 0  # processes killed at the time limit
    num_memory: int = 0  # processes killed at the memory limit
    num_deaths: int = 0  # processes that ended by themselves
    typical_s: float = 1e-3  # running mean of the time of one judgement
    times_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def count(self, verdict: Verdict) -> None:
        """Take note of one verdict."""
        self.num_judged += 1
        self.num_errors += not verdict.judged
        self.times_s.append(verdict.time_s)
        self.typical_s += 0.05 * (verdict.time_s - self.typical_s)

    def count_end(self, killed_for: str) -> None:
        """Take note of a process that ended although it should not have: by 'time', 'memory' or '' (by itself)."""
        self.num_timeouts += killed_for == "time"
        self.num_memory += killed_for == "memory"
        self.num_deaths += not killed_for

    def metrics(self) -> dict[str, float]:
        """``verifier/...`` figures: counts, and p50, p95 and maximum of the time of one judgement in seconds."""
        times = np.fromiter(self.times_s, dtype=np.float64) if self.times_s else np.zeros(1)
        p50, p95 = np.percentile(times, [50, 95])
        return {
            "verifier/num_judged": float(self.num_judged),
            "verifier/num_errors": float(self.num_errors),
            "verifier/num_timeouts": float(self.num_timeouts),
            "verifier/num_memory": float(self.num_memory),
            "verifier/num_deaths": float(self.num_deaths),
            "verifier/time_p50_s": float(p50),
            "verifier/time_p95_s": float(p95),
            "verifier/time_max_s": float(times.max()),
        }
