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
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.ledger import Outstanding

MANIFEST = "manifest.json"
CONTROLLER_PART = "controller.pkl"
TRAINER_PART = "trainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """The controller's part. Everything else is derived from it and from the recipe.

    ``entries`` are the outstanding groups; those without a ``group`` are sampled again with the same seeds.
    """

    version: int
    lineage: int
    next_position: int
    next_admission: int
    num_admitted_refills: int
    entries: tuple[Outstanding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    folder: Path
    version: int

    @property
    def trainer_folder(self) -> Path:
        return self.folder / TRAINER_PART

    def controller_state(self) -> ControllerState:
        with open(self.folder / CONTROLLER_PART, "rb") as file:
            state = pickle.load(file)
        if not isinstance(state, ControllerState):
            raise TypeError(f"{self.folder / CONTROLLER_PART} does not hold a controller state")
        return state


class CheckpointStore:
    """The checkpoints of one run. ``keep`` complete ones stay; an older one goes only after a newer one is complete."""

    def __init__(self, run_folder: str | Path, *, keep: int) -> None:
        self.folder = Path(run_folder) / "checkpoints"
        self._keep = keep

    def begin(self, version: int) -> Path:
        """An empty temporary folder with the trainer's subfolder in it. Leftovers of earlier tries are removed."""
        folder = self.folder / f".writing_step_{version:06d}"
        shutil.rmtree(folder, ignore_errors=True)
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
        target = self.folder / f"step_{state.version:06d}"
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
        _sync(self.folder)
        self._prune()
        return Checkpoint(folder=target, version=state.version)

    def discard(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def complete(self) -> list[Checkpoint]:
        """Checkpoints with a manifest, oldest first; contents not verified."""
        found = [p for p in self.folder.glob("step_*") if (p / MANIFEST).is_file()]
        return [Checkpoint(folder=p, version=int(p.name.removeprefix("step_"))) for p in sorted(found)]

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint whose files are all as the manifest says; damaged ones are passed over, with a warning."""
        for checkpoint in reversed(self.complete()):
            damage = _damage(checkpoint.folder)
            if not damage:
                return checkpoint
            warnings.warn(
                f"checkpoint {checkpoint.folder} is damaged ({damage}); using the one before it", stacklevel=2
            )
        return None

    def _prune(self) -> None:
        for checkpoint in self.complete()[: -self._keep]:
            shutil.rmtree(checkpoint.folder, ignore_errors=True)


def _damage(folder: Path) -> str:
    """What differs from the manifest, '' when nothing does."""
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
