"""Run folders: named so that the newest is last, refused where there is no room."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from headrace.cli.run_folder import check_room, find_run, new_run_folder
from headrace.config.load import load_recipe
from headrace.config.sections import Recipe
from headrace.errors import DataError
from headrace.models.locate import ModelFiles

Usage = namedtuple("Usage", "total used free")


def files(num_parameters: int = 1_000_000) -> ModelFiles:
    return ModelFiles(
        folder=Path("."),
        context_length=256,
        vocab_size=58,
        architecture="Qwen3ForCausalLM",
        eos_token_ids=(1,),
        num_parameters_estimate=num_parameters,
        nbytes=4 * num_parameters,
    )


def test_folders_of_the_same_second_stay_apart_and_hold_the_recipe(tmp_path: Path) -> None:
    recipe = load_recipe("demo", ["optimizer.lr=3e-4"])
    first = new_run_folder(tmp_path, "cpu/mine", recipe, files())
    second = new_run_folder(tmp_path, "cpu/mine", recipe, files())
    assert first != second
    assert first.name.endswith("-cpu-mine") or first.name.endswith("-cpu-mine-2")
    assert sorted([second.name, first.name])[0] == first.name
    assert load_recipe(str(first)) == recipe


def test_a_full_disk_is_said_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A checkpoint of a million fp32 parameters: 4 MB weights + 12 MB masters and moments. Two kept and one being
    # written are 48 MB, with the margin of 64 MiB about 115 MB.
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 10**9 - 100 * 10**6, 100 * 10**6))
    with pytest.raises(DataError, match=r"0\.10 GB free, the run needs about 0\.12 GB"):
        new_run_folder(tmp_path, "demo", Recipe(), files())
    assert list(tmp_path.iterdir()) == []  # no empty run folder stays behind
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, 120 * 10**6))
    check_room(tmp_path, Recipe(), files())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="cannot be made"):
        new_run_folder(tmp_path, "demo", Recipe(), files())


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        new_run_folder(tmp_path / "runs", "demo", Recipe(), files())


def test_only_run_folders_are_resumed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        find_run(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"it has no recipe\.yaml"):
        find_run(tmp_path)
