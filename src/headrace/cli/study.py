"""What ``headrace sweep`` and ``headrace ablate`` share: the runs, one line each, then table, plot and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.errors import DataError
from headrace.report.final_text import duration
from headrace.report.glyphs import figure
from headrace.report.study import RunFigures, study_rows
from headrace.report.study_runs import read_run
from headrace.report.study_table import console_tables, markdown, to_json, verdicts
from headrace.report.summary import SUMMARY_FILE
from headrace.studies.plan import Job, parse_seeds, plan
from headrace.studies.run import Runner, Task, run_study
from headrace.studies.store import RUNS, RunRecord, write_json
from headrace.studies.variant import Variant

TABLE_FILE, RESULTS_FILE = "table.md", "results.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What was asked for. ``baseline`` is the label of the variant the others are compared with."""

    command: str
    recipe: str
    fixed: Sequence[str]
    variants: Sequence[Variant]
    baseline: str
    seeds: str
    out: str


def carry_out(study: Study, *, dry_run: bool, console: Console | None = None, runner: Runner | None = None) -> int:
    """Check everything, make the runs, write the result; the exit code of the command."""
    console = console or Console()
    jobs = plan(study.recipe, study.fixed, study.variants, parse_seeds(study.seeds))
    _say(console, _opening(study, jobs))
    if dry_run:
        for variant in study.variants:
            _say(console, f"  {variant.label}: {' '.join(variant.overrides) or 'no change'}")
        return 0
    view = _Lines(console, Path(study.out), len(jobs))
    try:
        end = run_study(jobs, Path(study.out), runner or train_quietly, about=_about(study), observer=view.see)
    finally:
        view.close()
    _write_result(study, end.records, console)
    if end.exit_code > 1:
        _say(console, "stopped; the same command goes on from here")
    return end.exit_code


def train_quietly(task: Task) -> int:
    """One run by ``headrace train``; what that prints goes to the log."""
    from headrace.cli.train import run_train

    with task.log.open("a", encoding="utf-8") as log:
        console = Console(file=log, width=120, force_terminal=False)
        if task.resume is None:
            return run_train(str(task.recipe_file), runs=str(task.runs), console=console)
        code = run_train(None, resume=str(task.resume), console=console)
    if code == 0 and not (task.resume / SUMMARY_FILE).is_file():
        # killed between its last checkpoint and its summary: what that attempt measured is lost
        return train_quietly(replace(task, resume=None))
    return code


class _Lines:
    """One line for each run: what is running now on a terminal, what it came to when it has ended."""

    def __init__(self, console: Console, folder: Path, count: int) -> None:
        self._console, self._folder, self._count = console, folder, count
        self._status: Any = None
        self._started: float | None = None

    def see(self, number: int, job: Job, record: RunRecord) -> None:
        label = f"[{number + 1}/{self._count}] {job.variant.label}, seed {job.seed}"
        if record.status == "running":
            self._started = time.monotonic()
            self._status = self._console.status(_plain(label)) if self._console.is_terminal else None
            if self._status is not None:
                self._status.start()
            return
        self.close()
        took = "" if self._started is None else f", {duration(time.monotonic() - self._started)}"
        before = " (finished before)" if record.status == "finished" and self._started is None else ""
        _say(self._console, f"{label}: {self._outcome(job, record)}{took}{before}")
        self._started = None

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _outcome(self, job: Job, record: RunRecord) -> str:
        if record.status != "finished":
            return record.status + (f": {record.error}" if record.error else "")
        run = _read(self._folder, record)
        return f"{figure(run.pass_rate_before, 3)} to {figure(run.pass_rate_after, 3)}"


def _write_result(study: Study, records: Sequence[RunRecord], console: Console) -> None:
    folder = Path(study.out)
    labels = [variant.label for variant in study.variants]
    runs = [_read(folder, record) for record in records if record.status == "finished"]
    failures = [f"{record.variant}, seed {record.seed}: {record.error}" for record in records if record.error]
    rows = study_rows(runs, labels, study.baseline)
    title = f"{study.command} of {study.recipe}: {len(labels)} variants, seeds {study.seeds}"
    text = markdown(rows, study.baseline, title=title, failures=failures)
    (folder / TABLE_FILE).write_text(text, encoding="utf-8")
    changes = {variant.label: dict(variant.changes) for variant in study.variants}
    write_json(
        folder / RESULTS_FILE,
        {**_about(study), "changes": changes, "failures": failures, **to_json(rows, runs, study.baseline)},
    )
    if not runs:
        return
    for table in console_tables(rows, study.baseline, width=console.width):
        console.print(table)
    for sentence in verdicts(rows, study.baseline):
        _say(console, sentence)
    from headrace.report.study_plot import CURVES_FILE, write_curves

    write_curves(folder / CURVES_FILE, runs, labels, study.baseline, title=title)
    _say(console, f"{folder}: {TABLE_FILE}, {RESULTS_FILE}, {CURVES_FILE}, {RUNS}/")


def _read(folder: Path, record: RunRecord) -> RunFigures:
    if record.folder is None:
        raise DataError(f"{folder} says that '{record.name}' has finished, but it has no run folder")
    return read_run(folder / RUNS / record.folder, variant=record.variant)


def _about(study: Study) -> dict[str, Any]:
    return {"command": study.command, "recipe": study.recipe, "fixed": list(study.fixed), "baseline": study.baseline}


def _opening(study: Study, jobs: Sequence[Job]) -> str:
    seeds = len({job.seed for job in jobs})
    return (
        f"{len(jobs)} runs of '{study.recipe}': {len(study.variants)} variants x {seeds} seed{'s' * (seeds > 1)}, "
        f"compared with '{study.baseline}', in {study.out}"
    )


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
