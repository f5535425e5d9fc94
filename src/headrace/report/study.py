"""The numbers of a study: variants of a recipe over seeds, and their differences from one of them, paired by seed.

Nothing here reads a run or draws; ``study_runs.py`` brings the figures, ``study_table.py`` and ``study_plot.py`` show
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Curve = Mapping[int, float]
"""Step -> pass rate."""

LEVEL = 0.95  # of the interval that decides whether the spread covers a difference


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """One finished run. What it does not have is None; pass rates are held out, in [0, 1]; ``entropy`` is in nats.

    ``samples_per_s`` counts the completions that were trained, over ``train_s``.
    """

    variant: str
    seed: int
    pass_rate_before: float | None = None
    pass_rate_after: float | None = None
    entropy: float | None = None
    train_s: float | None = None
    samples_per_s: float | None = None
    max_lag: int | None = None
    positive_share: float | None = None
    held_out: Curve | None = None
    training: Curve | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Values over seeds. ``sd`` is the sample standard deviation (ddof 1), None for one value."""

    mean: float
    sd: float | None
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Variant minus baseline over the ``seeds`` both have.

    ``standard_error`` is sd (ddof 1) of the differences by seed over sqrt(number of seeds); ``half_width`` that of the
    interval at ``LEVEL`` by Student's t with one degree of freedom less than seeds. Both are None for one seed, and
    when the differences do not vary at all, which says nothing about how far they would.
    """

    mean: float
    standard_error: float | None
    half_width: float | None
    seeds: tuple[int, ...]

    @property
    def covered(self) -> bool | None:
        """Whether the interval holds 0, so that seeds alone explain the difference. None: cannot be told."""
        return None if self.half_width is None else abs(self.mean) <= self.half_width

    def in_words(self) -> str:
        """The verdict, as the table says it."""
        if self.covered is not None:
            return "the spread covers the difference" if self.covered else "the difference stands out of the spread"
        if len(self.seeds) < 2:
            return "one seed shows no spread"
        return "the same difference at every seed" if self.mean else "no difference at any seed"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """One variant of the table. ``difference`` is of the pass rate after training, None for the baseline itself."""

    variant: str
    seeds: tuple[int, ...]
    before: Spread | None
    after: Spread | None
    entropy: Spread | None
    train_s: Spread | None
    samples_per_s: Spread | None
    max_lag: int | None
    positive_share: Spread | None
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Band:
    """Curves of several runs: mean, lowest and highest at every step that all of them have."""

    steps: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def study_rows(runs: Sequence[RunFigures], variants: Sequence[str], baseline: str) -> list[VariantRow]:
    """One row a variant, in the order given; a variant without a finished run has a row without figures."""
    of = {variant: [run for run in runs if run.variant == variant] for variant in variants}
    return [_row(variant, of[variant], of.get(baseline, []), variant == baseline) for variant in variants]


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of the values that are there and finite; None when there is none."""
    kept = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not kept:
        return None
    mean = math.fsum(kept) / len(kept)
    return Spread(mean, _sd(kept, mean), min(kept), max(kept), len(kept))


def paired_difference(variant: Mapping[int, float], baseline: Mapping[int, float]) -> Difference | None:
    """Of values by seed, over the seeds that both have; None when they share none."""
    seeds = tuple(sorted(variant.keys() & baseline.keys()))
    if not seeds:
        return None
    found = [variant[seed] - baseline[seed] for seed in seeds]
    mean = math.fsum(found) / len(found)
    sd = _sd(found, mean)
    if sd is None or sd < 1e-12:
        return Difference(mean, None, None, seeds)
    error = sd / math.sqrt(len(found))
    return Difference(mean, error, error * _student_t(len(found) - 1), seeds)


def band(curves: Sequence[Curve]) -> Band:
    """The steps that all curves have, with the mean and the range of their values there."""
    shared = set.intersection(*(set(curve) for curve in curves)) if curves else set()
    steps = tuple(sorted(shared))
    columns = [[curve[step] for curve in curves] for step in steps]
    return Band(
        steps,
        tuple(math.fsum(column) / len(column) for column in columns),
        tuple(min(column) for column in columns),
        tuple(max(column) for column in columns),
    )


def _row(variant: str, runs: Sequence[RunFigures], baseline: Sequence[RunFigures], is_baseline: bool) -> VariantRow:
    lags = [run.max_lag for run in runs if run.max_lag is not None]
    return VariantRow(
        variant=variant,
        seeds=tuple(sorted(run.seed for run in runs)),
        before=spread(run.pass_rate_before for run in runs),
        after=spread(run.pass_rate_after for run in runs),
        entropy=spread(run.entropy for run in runs),
        train_s=spread(run.train_s for run in runs),
        samples_per_s=spread(run.samples_per_s for run in runs),
        max_lag=max(lags, default=None),
        positive_share=spread(run.positive_share for run in runs),
        difference=None if is_baseline else paired_difference(_after(runs), _after(baseline)),
    )


def _after(runs: Sequence[RunFigures]) -> dict[int, float]:
    return {run.seed: run.pass_rate_after for run in runs if run.pass_rate_after is not None}


def _sd(values: Sequence[float], mean: float) -> float | None:
    if len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _student_t(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + LEVEL) / 2))
