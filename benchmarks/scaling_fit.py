"""How well half a learning curve says where it ends: synthetic curves of the ScaleRL paper's Table 1, fitted, tested.

    .venv/bin/python benchmarks/scaling_fit.py --json out.json            # 1,000 draws a row, one core
    .venv/bin/python benchmarks/scaling_fit.py --draws 100                # a look
    .venv/bin/python benchmarks/scaling_fit.py --plan --draws 200         # how many evaluations a run needs

Every draw is one run: an evaluation of 16,000 completions before training (R0 = .25), none in the first 1.5k, then 50
up to the budget of the fit. It is fitted with ``fit_curve`` as a user would, and its forecast at the full budget is
compared with the true curve. Printed per row: shares of draws, and the power law on the same draws. Then the same
curves with data that end at 1.0 C_mid, which must be refused, and the time of a fit in processor seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.scaling.curve import sigmoid
from headrace.scaling.estimate import PARAMETERS, Options
from headrace.scaling.fit import fit_curve, fit_runs
from headrace.scaling.forecast import forecast
from headrace.scaling.grid import grid_fit, ranges
from headrace.scaling.points import Points, checked_points
from headrace.scaling.power_law import fit_power_law
from headrace.scaling.result import Fit

N, START, FIRST, EVALUATIONS = 16_000, 0.25, 1500.0, 50
CODE = "math+code: code"
FORECAST_TOLERANCE = 0.02


@dataclass(frozen=True)
class Row:
    """A row of Table 1 of arXiv 2510.13786, the compute fitted to and the compute forecast (in its GPU hours)."""

    name: str
    C_mid: float
    B: float
    A: float
    fitted: float
    full: float

    @property
    def true(self) -> dict[str, float]:
        return {"A": self.A, "B": self.B, "C_mid": self.C_mid, "R0": START}


ROWS = (
    Row("ScaleRL-8B", 2542, 1.92, 0.610, 8_000, 16_000),
    Row("32k context", 11272, 1.89, 0.645, 50_000, 100_000),
    Row("8 generations", 2542, 2.44, 0.585, 8_000, 16_000),
    Row("24 generations", 3054, 2.22, 0.590, 8_000, 16_000),
    Row("32 generations", 2936, 2.07, 0.595, 8_000, 16_000),
    Row("Scout 17Bx16", 4242, 1.65, 0.710, 16_000, 45_000),
    Row("batch 512", 2818, 1.77, 0.605, 8_000, 16_000),
    Row("batch 2048", 10909, 1.70, 0.645, 50_000, 100_000),
    Row("math+code: math", 2896, 2.05, 0.595, 8_000, 16_000),
    Row(CODE, 1675, 1.09, 0.615, 8_000, 16_000),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--draws", type=int, default=1000, help="simulated runs a row (default: 1000)")
    parser.add_argument("--bootstrap", type=int, default=1000, help="bootstrap draws of every fit (default: 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plan", action="store_true", help="only: which evaluations are enough for a forecast?")
    options = parser.parse_args()
    if options.plan:
        print(plan(options.draws, options.seed))
        return
    rows = []
    for number, row in enumerate(ROWS):
        rng = np.random.default_rng([options.seed, number])
        rows.append(measure_row(row, options.draws, options.bootstrap, rng))
        print(line(rows[-1]), file=sys.stderr, flush=True)
    report = {"options": {k: v for k, v in vars(options).items() if k != "json"}, "rows": rows}
    report |= {"pooled": pooled(rows), "speed": speed()}
    report["targets"] = targets(report)
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def simulate(row: Row, end: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Compute and scores of one run with 50 evaluations up to ``end`` behind the one at 0."""
    first = min(FIRST, end / 2)
    compute = np.concatenate([[0.0], np.linspace(first, end, EVALUATIONS)])
    return compute, rng.binomial(N, sigmoid(compute, **row.true)) / N


def measure_row(row: Row, draws: int, bootstrap: int, rng: np.random.Generator) -> dict[str, Any]:
    """All figures of one row."""
    found = [measure_draw(row, bootstrap, rng) for _ in range(draws)]
    short = [fit_curve(*simulate(row, row.C_mid, rng), n=N, draws=20).identified for _ in range(draws)]
    a_limit, mid_limit = (0.03, 0.15) if row.name == CODE else (0.02, 0.10)
    mean = {key: float(np.mean([draw[key] for draw in found])) for key in found[0]}
    return {
        "row": asdict(row),
        "A_within": float(np.mean([draw["A_error"] <= a_limit for draw in found])),
        "C_mid_within": float(np.mean([draw["C_mid_error"] <= mid_limit for draw in found])),
        "limits": [a_limit, mid_limit],
        "forecast_within": float(np.mean([draw["forecast_error"] <= FORECAST_TOLERANCE for draw in found])),
        "refused": mean["refused"],
        "refused_at_C_mid": 1.0 - float(np.mean(short)),
        "coverage_profile": {key: mean[f"profile_{key}"] for key in (*PARAMETERS, "forecast")},
        "coverage_bootstrap": {key: mean[f"bootstrap_{key}"] for key in (*PARAMETERS, "forecast")},
        "A_median_error": float(np.median([draw["A_error"] for draw in found])),
        "power_law_A": float(np.median([draw["power_A"] for draw in found])),
        "power_law_A_within": float(np.mean([abs(draw["power_A"] - row.A) <= a_limit for draw in found])),
        "power_law_forecast_within": float(np.mean([draw["power_error"] <= FORECAST_TOLERANCE for draw in found])),
        "power_law_forecast_bias": mean["power_bias"],
    }


def measure_draw(row: Row, bootstrap: int, rng: np.random.Generator) -> dict[str, float]:
    """One simulated run: errors of the fit, and whether its intervals hold the truth."""
    compute, score = simulate(row, row.fitted, rng)
    profile = fit_curve(compute, score, n=N, draws=20)  # profiles need no draws
    seed = int(rng.integers(1 << 31))
    resampled = fit_curve(compute, score, n=N, interval="bootstrap", draws=bootstrap, seed=seed)
    truth = row.true | {"forecast": float(sigmoid(row.full, **row.true))}
    value = float(profile.at(row.full))
    law = fit_power_law(compute, score, 1 / profile.noise.error[None, :] ** 2)
    power = float(law.at(row.full)[0])
    said = {
        "A_error": abs(profile.A - row.A),
        "C_mid_error": abs(profile.C_mid / row.C_mid - 1),
        "forecast_error": abs(value - truth["forecast"]),
        "refused": float(not profile.identified),
        "power_A": float(law.A[0]),
        "power_error": abs(power - truth["forecast"]),
        "power_bias": power - truth["forecast"],
    }
    for name, fit in (("profile", profile), ("bootstrap", resampled)):
        ends = intervals(fit, row.full)
        said |= {f"{name}_{key}": float(ends[key][0] <= true <= ends[key][1]) for key, true in truth.items()}
    return said


def intervals(fit: Fit, full: float) -> dict[str, tuple[float, float]]:
    """The fit's intervals, that of the forecast among them; a refused fit has none of the forecast, so it misses."""
    said = forecast(fit, full)
    return fit.intervals | {"forecast": said.interval}


def pooled(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Coverage over all rows and quantities, by interval method."""
    return {
        name: float(np.mean([value for row in rows for value in row[f"coverage_{name}"].values()]))
        for name in ("profile", "bootstrap")
    }


def targets(report: dict[str, Any]) -> dict[str, bool]:
    """What was promised, and whether it holds."""
    nine = [row for row in report["rows"] if row["row"]["name"] != CODE]
    (code,) = [row for row in report["rows"] if row["row"]["name"] == CODE]
    speed_s = report["speed"]
    return {
        "nine rows: |dA| <= .02 in >= 98 %": all(row["A_within"] >= 0.98 for row in nine),
        "nine rows: C_mid within 10 % in >= 97 %": all(row["C_mid_within"] >= 0.97 for row in nine),
        "code: |dA| <= .03 in >= 95 %": code["A_within"] >= 0.95,
        "code: C_mid within 15 % in >= 90 %": code["C_mid_within"] >= 0.90,
        "forecast within .02 in >= 99 % everywhere": all(row["forecast_within"] >= 0.99 for row in [*nine, code]),
        "coverage 87-93 % pooled, profile": 0.87 <= report["pooled"]["profile"] <= 0.93,
        "coverage 87-93 % pooled, bootstrap": 0.87 <= report["pooled"]["bootstrap"] <= 0.93,
        "nine rows: refused <= 2 %": all(row["refused"] <= 0.02 for row in nine),
        "code: refused <= 15 %": code["refused"] <= 0.15,
        "data to 1.0 C_mid: refused >= 95 %": all(row["refused_at_C_mid"] >= 0.95 for row in [*nine, code]),
        "200 points, 1,000 bootstrap draws < 1 s": max(speed_s["profile_s"], speed_s["bootstrap_s"]) < 1,
        "the paper's full grid < 1 s": speed_s["grid_s"] < 1,
    }


def speed() -> dict[str, float]:
    """Processor seconds, medians of five: a fit of 200 points with 1,000 draws, and the paper's grid."""
    rng = np.random.default_rng(1)
    compute = np.concatenate([[0.0], np.linspace(FIRST, 8000, 199)])
    points = checked_points(compute, rng.binomial(N, sigmoid(compute, **ROWS[0].true)) / N, n=N)
    grid = ranges(0.45, 0.8, 100, 40_000)
    return {
        "profile_s": processor_s(lambda: fit_points(points, "profile")),
        "bootstrap_s": processor_s(lambda: fit_points(points, "bootstrap")),
        "grid_s": processor_s(lambda: grid_fit(points, START, grid)),
    }


def fit_points(points: Points, interval: str) -> Fit:
    return fit_runs([points], Options(interval=interval, draws=1000))


def processor_s(work: Any) -> float:
    times = []
    for _ in range(5):
        start = resource.getrusage(resource.RUSAGE_SELF)
        work()
        end = resource.getrusage(resource.RUSAGE_SELF)
        times.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return statistics.median(times)


def plan(draws: int, seed: int) -> str:
    """Share of half runs that are refused, by evaluations, completions of each and how far the data reach."""
    ends = (2.5, 3.0, 4.0)
    lines = ["| evaluations | completions each | " + " | ".join(f"data to {end:g} C_mid" for end in ends) + " |"]
    lines.append("|---" * (2 + len(ends)) + "|")
    for count in (15, 30, 60):
        for n in (2000, 4000, 8000):
            rng = np.random.default_rng([seed, count, n])
            shares = [f"{100 * refused_share(count, n, end, draws, rng):.0f}" for end in ends]
            lines.append(f"| {count} | {n} | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def refused_share(count: int, n: int, end: float, draws: int, rng: np.random.Generator) -> float:
    """For the first row's curve with C_mid as the unit of compute: evenly spaced evaluations from 0 to ``end``."""
    compute = np.linspace(0, end, count + 1)
    rate = sigmoid(compute, **(ROWS[0].true | {"C_mid": 1.0}))
    fits = (fit_curve(compute, rng.binomial(n, rate) / n, n=n, draws=20) for _ in range(draws))
    return 1.0 - float(np.mean([fit.identified for fit in fits]))


def line(row: dict[str, Any]) -> str:
    """One row of the table, in Markdown."""
    cover = [float(np.mean(list(row[f"coverage_{name}"].values()))) for name in ("profile", "bootstrap")]
    shares = [row["A_within"], row["C_mid_within"], row["forecast_within"], *cover, row["refused"]]
    shares.append(row["refused_at_C_mid"])
    cells = [row["row"]["name"], *(f"{100 * share:.1f}" for share in shares)]
    cells += [f"{row['row']['A']:.3f}", f"{row['power_law_A']:.3f}", f"{100 * row['power_law_forecast_within']:.1f}"]
    cells.append(f"{row['power_law_forecast_bias']:+.3f}")
    return "| " + " | ".join(cells) + " |"


def table(report: dict[str, Any]) -> str:
    head = (
        "| row | A within .02 (code .03) | C_mid within 10 % (code 15 %) | forecast within .02 | coverage, profile "
        "| coverage, bootstrap | refused | refused at 1.0 C_mid | true A | power law: A | its forecast within .02 "
        "| its bias |"
    )
    rule = "|---" * head.count(" |") + "|"
    lines = [head, rule, *(line(row) for row in report["rows"]), ""]
    lines.append("pooled coverage: " + ", ".join(f"{k} {100 * v:.2f} %" for k, v in report["pooled"].items()))
    lines.append("processor time: " + ", ".join(f"{k} {v:.3f}" for k, v in report["speed"].items()))
    lines += [f"{'holds' if held else 'MISSED'}: {name}" for name, held in report["targets"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
