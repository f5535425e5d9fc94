"""What a study has run: ``sweep.json`` beside one recipe file a run. Written whole after every change."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.config.layers import leaves
from headrace.config.load import load_recipe, write_recipe
from headrace.config.sections import Recipe
from headrace.errors import ConfigError, DataError
from headrace.studies.plan import Job
from headrace.studies.variant import show

STUDY_FILE = "sweep.json"
RECIPES, RUNS, LOGS = "recipes", "runs", "logs"


@dataclass(slots=True)
class RunRecord:
    """One run: ``waiting``, ``running``, ``interrupted``, ``failed`` (with its error) or ``finished``.

    ``folder`` is the run folder's name under ``runs/``, once there is one.
    """

    variant: str
    seed: int
    name: str
    status: str = "waiting"
    folder: str | None = None
    error: str | None = None


class StudyStore:
    """The folder of a study. ``records`` are by run name, in the order they were first wanted."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self._about = dict(about)
        self.records: dict[str, RunRecord] = {row["name"]: RunRecord(**row) for row in _read(folder).get("runs", ())}

    def want(self, jobs: Sequence[Job]) -> None:
        """Take in the runs of a call and write their recipe files.

        Raises ``ConfigError`` when a run of the same name was made here with another recipe.
        """
        for job in jobs:
            self._keep_recipe(job)
        for job in jobs:
            self.records.setdefault(job.name, RunRecord(job.variant.label, job.seed, job.name))
        self.save()

    def recipe_file(self, name: str) -> Path:
        return self.folder / RECIPES / f"{name}.yaml"

    def run_folder(self, name: str) -> Path | None:
        """The newest run folder of a run (``DATE-TIME-NAME``, a number behind it when two began in one second)."""
        pattern = re.compile(rf"\d{{8}}-\d{{6}}-{re.escape(name)}(-\d+)?")
        found = [path for path in (self.folder / RUNS).glob("*") if pattern.fullmatch(path.name)]
        return max(found, key=lambda path: path.name, default=None)

    def save(self) -> None:
        content = {**self._about, "runs": [asdict(record) for record in self.records.values()]}
        write_json(self.folder / STUDY_FILE, content)

    def _keep_recipe(self, job: Job) -> None:
        file = self.recipe_file(job.name)
        if file.exists() and self.run_folder(job.name) is not None:
            there = load_recipe(file)
            if there != job.recipe:
                raise ConfigError(
                    f"{self.folder} holds a run '{job.name}' of another recipe: {_differences(there, job.recipe)}. "
                    "Choose another --out DIR, or remove this one."
                )
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        write_recipe(job.recipe, file)


@contextmanager
def open_study(folder: Path, about: Mapping[str, Any]) -> Iterator[StudyStore]:
    """The store of a folder, made if need be. Raises ``DataError`` while another process runs a study in it."""
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        (folder / LOGS).mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{folder} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield StudyStore(folder, about)
    except BlockingIOError:
        raise DataError(f"another process runs a study in {folder}; wait for it, or choose another --out DIR") from None
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """Write a file that is complete or not there."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / STUDY_FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return dict(found)
    except ValueError as error:
        raise DataError(f"{path} is not the record of a study: {error}") from None


def _differences(there: Recipe, here: Recipe) -> str:
    trees = [dict(leaves(recipe.model_dump(mode="json", by_alias=True))) for recipe in (there, here)]
    keys = [key for key in {**trees[0], **trees[1]} if trees[0].get(key) != trees[1].get(key)]
    said = [f"{key} is {show(trees[0].get(key))} there and {show(trees[1].get(key))} here" for key in keys[:3]]
    return "; ".join(said) + (f"; and {len(keys) - 3} more" if len(keys) > 3 else "")
