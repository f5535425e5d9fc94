"""Runs the jobs of a study one after another. How a run is made is the caller's: see ``Runner``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.studies.plan import Job
from headrace.studies.store import LOGS, RUNS, RunRecord, StudyStore, open_study

SIGNALS = range(129, 160)
"""Exit codes of a run that was asked to stop: 128 + the signal."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be made: train ``recipe_file`` in a new folder under ``runs``, or go on with the folder ``resume``."""

    recipe_file: Path
    runs: Path
    resume: Path | None
    log: Path


Runner = Callable[[Task], int]
"""Makes one run and returns its exit code: 0, or 128 + a signal after a request to stop. Raises what goes wrong."""

Observer = Callable[[int, Job, RunRecord], None]
"""Called with the number of the run, from 0, when it starts (status ``running``), and when it has ended."""


@dataclass(frozen=True, slots=True)
class StudyEnd:
    """The records of the jobs, in their order. ``exit_code``: 0, 1 when a run failed, 128 + a signal when stopped."""

    records: tuple[RunRecord, ...]
    exit_code: int


def run_study(
    jobs: Sequence[Job],
    folder: Path,
    runner: Runner,
    *,
    about: Mapping[str, Any] | None = None,
    observer: Observer = lambda number, job, record: None,
) -> StudyEnd:
    """Make every run that is not finished yet. A run that fails is recorded and the next one starts.

    What an earlier call left unfinished goes on in its own run folder, from its checkpoint if there is one. A request
    to stop (an exit code of 128 + signal) ends the study. ``KeyboardInterrupt`` passes through; both are recorded. A
    run that an earlier call finished is only observed. Raises ``ConfigError`` when ``folder`` holds runs of other
    recipes under the same names, before anything starts.
    """
    with open_study(folder, about or {}) as store:
        store.want(jobs)
        code = 0
        for number, job in enumerate(jobs):
            record = store.records[job.name]
            if record.status != "finished":
                _begin(store, record)
                observer(number, job, record)
                code = _make(store, record, runner)
            observer(number, job, record)
            if code in SIGNALS:
                break
        records = tuple(store.records[job.name] for job in jobs)
    failed = any(record.status == "failed" for record in records)
    return StudyEnd(records, code if code in SIGNALS else int(failed))


def _begin(store: StudyStore, record: RunRecord) -> None:
    record.status, record.error = "running", None
    store.save()


def _make(store: StudyStore, record: RunRecord, runner: Runner) -> int:
    task = Task(
        recipe_file=store.recipe_file(record.name),
        runs=store.folder / RUNS,
        resume=store.run_folder(record.name),
        log=store.folder / LOGS / f"{record.name}.log",
    )
    record.status = "interrupted"  # what stays when an exception other than an error passes through
    code = 0
    try:
        code = runner(task)
        record.status = "finished" if code == 0 else "interrupted" if code in SIGNALS else "failed"
        if record.status == "failed":
            record.error = f"the run ended with exit code {code}; see {LOGS}/{record.name}.log"
    except Exception as error:
        record.status = "failed"
        record.error = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
    finally:
        made = store.run_folder(record.name)
        record.folder = made.name if made else None
        store.save()
    return code
