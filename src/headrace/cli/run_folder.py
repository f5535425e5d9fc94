"""Run folders: made, found again, and asked for their newest checkpoint."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from headrace.config.load import write_recipe
from headrace.config.sections import Recipe
from headrace.errors import DataError
from headrace.models.locate import ModelFiles

RECIPE_FILE = "recipe.yaml"
_MARGIN_BYTES = 64 << 20  # logs, rollouts, pictures


def new_run_folder(runs: str | Path, recipe_name: str, recipe: Recipe, model: ModelFiles) -> Path:
    """Make ``RUNS/YYYYMMDD-HHMMSS-NAME`` (newest last by name) with the resolved recipe in it.

    Raises ``DataError`` when it cannot be made or the disk has no room for its checkpoints.
    """
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{recipe_name.replace('/', '-')}"
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = Path(runs) / (name + suffix)
        try:
            folder.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise DataError(f"run folder {folder} cannot be made: {error.strerror}") from None
        break
    try:
        check_room(folder, recipe, model)
        write_recipe(recipe, folder / RECIPE_FILE)
    except (OSError, DataError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, DataError):
            raise
        raise DataError(f"run folder {folder} cannot be written: {error.strerror}") from None
    return folder.resolve()


def check_room(folder: Path, recipe: Recipe, model: ModelFiles) -> None:
    """Raise ``DataError`` when the disk has no room: a checkpoint holds weights and, in fp32, masters and moments."""
    checkpoint = model.nbytes + 12 * model.num_parameters_estimate
    needed = checkpoint * (recipe.checkpoint.keep + 1) + _MARGIN_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"run folder {folder}: the disk has {free / 1e9:.2f} GB free, the run needs about {needed / 1e9:.2f} GB "
            f"({recipe.checkpoint.keep} checkpoints kept and one being written); make room or choose another --runs DIR"
        )


def find_run(path: str | Path) -> Path:
    """A run folder to resume or evaluate. Raises ``DataError`` when it is none."""
    folder = Path(path)
    if not folder.is_dir():
        raise DataError(f"run folder '{path}' does not exist")
    if not (folder / RECIPE_FILE).is_file():
        raise DataError(f"'{path}' is not a run folder: it has no {RECIPE_FILE}")
    return folder.resolve()
