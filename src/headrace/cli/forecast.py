"""``headrace forecast RUN --at C``: the pass rate to expect, and whether to go on."""

from __future__ import annotations

import argparse

from rich.console import Console

from headrace.cli.fit import fit_options, load_runs, say_reasons, write_json
from headrace.scaling.fit import fit_runs
from headrace.scaling.forecast import Verdict, against_budget, against_target, forecast

REFUSED = 1


def run_forecast(options: argparse.Namespace, console: Console | None = None) -> int:
    """Print value, interval and verdict. The exit code is 1 when the forecast is refused."""
    console = console or Console()
    runs = load_runs(options.targets, options)
    fit = fit_runs([run.window(options.start, options.until) for run in runs], fit_options(options))
    at = options.at if options.at is not None else options.budget
    said = forecast(fit, at)
    verdict: Verdict | None = None
    if options.target is not None:
        verdict = against_target(fit, options.target, at)
    elif options.budget is not None:
        verdict = against_budget(fit, options.budget, options.margin)
    if said.refused:
        console.print(f"no forecast for {at:.6g} {fit.unit}", highlight=False, soft_wrap=True)
        say_reasons(console, fit)
    else:
        low, high = said.interval
        console.print(
            f"pass rate at {at:.6g} {fit.unit}: {said.value:.4f} ({said.level:.0%} interval {low:.4f} .. {high:.4f})",
            highlight=False,
        )
    if verdict is not None:
        console.print(f"{verdict.decision}: {verdict.why}", highlight=False, markup=False, soft_wrap=True)
    if options.json:
        content = {"forecast": said.to_json(), "fit": fit.to_json(), "verdict": None}
        if verdict is not None:
            chance = None if verdict.decision == "unknown" else verdict.probability
            content["verdict"] = {"decision": verdict.decision, "why": verdict.why, "probability": chance}
        write_json(options.json, content)
    return REFUSED if said.refused else 0
