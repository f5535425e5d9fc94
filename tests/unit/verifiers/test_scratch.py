import os
import tempfile
import time

import pytest

from headrace.verifiers import scratch
from headrace.verifiers.scratch import Scratch, sweep


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def age(path):
    os.utime(path, (time.time() - 3600,) * 2)


def test_a_folder_goes_with_everything_in_it(tmp_path):
    mine = Scratch()
    deep = mine.path
    for _ in range(30):
        deep = os.path.join(deep, "d" * 100)
        os.mkdir(deep)
    os.symlink("/", os.path.join(mine.path, "root"))
    os.chmod(os.path.join(mine.path, "d" * 100), 0)
    mine.remove()
    mine.remove()
    assert not list(tmp_path.iterdir())


def test_only_what_nobody_owns_is_swept(tmp_path):
    owned, young, foreign = Scratch(), tmp_path / f"{scratch.PREFIX}young", tmp_path / "other"
    abandoned = tmp_path / f"{scratch.PREFIX}abandoned"
    for folder in (young, foreign, abandoned):
        folder.mkdir()
    (abandoned / "file").write_text("x")
    for folder in (owned.path, foreign, abandoned):
        age(folder)
    sweep()
    assert {path.name for path in tmp_path.iterdir()} == {os.path.basename(owned.path), young.name, "other"}
    owned.remove()
