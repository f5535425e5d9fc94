"""Checkpoints: one folder each, trainer and controller parts cut at the same step boundary, complete or not there.

``checkpoints/step_000040/`` holds ``trainer/`` (Hugging Face model, optimiser), ``controller.pkl`` and, written last,
``manifest.json`` with every file's size and SHA-256. The folder is filled under a temporary name and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from headrace.errors import CheckpointError
from headrace.pipeline.ledger import Outstanding
from headrace.pipeline.totals import Spent

MANIFEST = "manifest.json"
CONTROLLER_PART = "controller.pkl"
TRAINER_PART = "trainer"
STEP, WRITING, ASIDE = "step_", ".writing_step_", ".aside_step_"  # folder names: complete, in progress, replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """The controller's part. Everything else is derived from it and from the recipe.

    ``entries`` are the outstanding groups; those without a ``group`` are sampled again with the same seeds. ``spent``
    is what the version has cost, ``curation`` what a curated prompt source remembers.
    """

    version: int
    lineage: int
    next_position: int
    next_admission: int
    refills_in_a_row: int
    entries: tuple[Outstanding, ...]
    spent: Spent = field(default_factory=Spent)
    curation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    folder: Path
    version: int

    @property
    def trainer_folder(self) -> Path:
        return self.folder / TRAINER_PART

    def controller_state(self) -> ControllerState:
        """Raises ``CheckpointError`` naming the file when it is not there, damaged, or of another Headrace version."""
        path = self.folder / CONTROLLER_PART
        try:
            with open(path, "rb") as file:
                state = pickle.load(file)
        except Exception as error:  # unpickling may fail in any way
            raise CheckpointError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
        if not isinstance(state, ControllerState):
            raise CheckpointError(f"{path} holds a {type(state).__name__}, not a controller's state")
        lacking = [f.name for f in fields(state) if not hasattr(state, f.name)]
        if lacking:
            raise CheckpointError(f"{path} was written by another version of Headrace: it lacks {', '.join(lacking)}")
        return state


class CheckpointStore:
    """The checkpoints of one run. ``keep`` complete ones stay; an older one goes only after a newer one is complete.

    A checkpoint of a version beyond the one just written belongs to a future that was given up (it was damaged, or the
    run was told to start from an older one): it goes too, or it would be resumed from later.
    """

    def __init__(self, run_folder: str | Path, *, keep: int) -> None:
        self.folder = Path(run_folder) / "checkpoints"
        self._keep = keep

    def begin(self, version: int) -> Path:
        """An empty temporary folder with the trainer's subfolder in it. Leftovers of earlier tries are removed."""
        for leftover in self.folder.glob(f"{WRITING}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = self.folder / f"{WRITING}{version:06d}"
        (folder / TRAINER_PART).mkdir(parents=True)
        return folder

    def commit(self, folder: Path, state: ControllerState) -> Checkpoint:
        """Add the controller's part and the manifest, rename, prune. Raises ``OSError`` leaving older ones alone."""
        with open(folder / CONTROLLER_PART, "wb") as file:
            pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        manifest = {
            "version": state.version,
            "lineage": state.lineage,
            "files": {str(p.relative_to(folder)): [p.stat().st_size, _sha256(p)] for p in files},
        }
        for path in files:
            _sync(path)
        temporary = folder / (MANIFEST + ".tmp")
        temporary.write_text(json.dumps(manifest, indent=1))
        _sync(temporary)
        temporary.rename(folder / MANIFEST)
        for directory in (*(d for d in folder.rglob("*") if d.is_dir()), folder):
            _sync(directory)
        return self._put_in_place(folder, state.version)

    def _put_in_place(self, folder: Path, version: int) -> Checkpoint:
        """Rename a complete folder; one of the same version stands aside until that is done."""
        target, aside = self.folder / f"{STEP}{version:06d}", self.folder / f"{ASIDE}{version:06d}"
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
            target.rename(aside)
        try:
            folder.rename(target)
        except OSError:
            if aside.exists():
                aside.rename(target)
            raise
        _sync(self.folder)
        self._prune(version)
        return Checkpoint(folder=target, version=version)

    def discard(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def complete(self) -> list[Checkpoint]:
        """Checkpoints with a manifest, oldest first; contents not verified."""
        found: dict[int, Checkpoint] = {}
        for prefix in (ASIDE, STEP):  # one that stands aside counts only while nothing took its place
            for path in self.folder.glob(f"{prefix}*"):
                number = path.name.removeprefix(prefix)
                if number.isdecimal() and (path / MANIFEST).is_file():
                    found[int(number)] = Checkpoint(folder=path, version=int(number))
        return [found[version] for version in sorted(found)]

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint whose files are all as the manifest says and whose controller part can be read.

        Others are passed over, with a warning.

        A folder without a manifest (it was being written, or is not ours) is warned about as well.
        """
        complete = self.complete()
        for folder in self.folder.glob(f"{STEP}*"):
            if folder not in {c.folder for c in complete}:
                warnings.warn(f"checkpoint {folder} is incomplete (no {MANIFEST}); it is not used", stacklevel=2)
        for checkpoint in reversed(complete):
            damage = _damage(checkpoint)
            if not damage:
                return checkpoint
            warnings.warn(
                f"checkpoint {checkpoint.folder} is damaged ({damage}); using the one before it", stacklevel=2
            )
        return None

    def _prune(self, version: int) -> None:
        """Remove what ``version``, just completed, makes superfluous."""
        complete = self.complete()
        past = [c for c in complete if c.version <= version]
        kept = {c.folder for c in past[-self._keep :]}
        for folder in (*(c.folder for c in complete), *self.folder.glob(f"{ASIDE}*")):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)


def _damage(checkpoint: Checkpoint) -> str:
    """What differs from the manifest or cannot be read, '' when nothing does."""
    folder = checkpoint.folder
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        for name, (size, digest) in files.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size or _sha256(path) != digest:
                return f"{name} is not what was written"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{MANIFEST} cannot be read: {error}"
    try:
        checkpoint.controller_state()
    except CheckpointError as error:
        return str(error)
    return ""


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
