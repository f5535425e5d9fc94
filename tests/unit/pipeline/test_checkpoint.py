"""A checkpoint is complete or not there, and there is always one once there was one."""

from __future__ import annotations

import errno
import hashlib
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import CheckpointError
from headrace.pipeline.checkpoint import Checkpoint, CheckpointStore, ControllerState
from headrace.pipeline.ledger import Outstanding
from headrace.pipeline.totals import Spent
from headrace.records import Group
from headrace.tracking.eval_log import Compute

Entry = Callable[[int, int], Outstanding]


def state_of(version: int, *entries: Outstanding, lineage: int = 0) -> ControllerState:
    return ControllerState(
        version=version,
        lineage=lineage,
        next_position=10 * version,
        next_admission=10 * version,
        refills_in_a_row=0,
        entries=entries,
    )


def write(store: CheckpointStore, version: int, text: str = "weights", *, lineage: int = 0) -> Checkpoint:
    folder = store.begin(version)
    (folder / "trainer" / "model.bin").write_text(text)
    return store.commit(folder, state_of(version, lineage=lineage))


def names(store: CheckpointStore) -> list[str]:
    return sorted(p.name for p in store.folder.iterdir())


def test_what_was_written_comes_back(tmp_path: Path, make_entry: Entry, make_group: Callable[..., Group]) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    finished = replace(make_entry(3, 1), group=make_group(3, [1, 2], [2]), group_version=1)
    folder = store.begin(2)
    (folder / "trainer" / "model.bin").write_text("weights")
    store.commit(folder, state_of(2, finished, make_entry(4, 2)))
    found = CheckpointStore(tmp_path, keep=2).newest()
    assert found is not None
    assert (found.version, found.folder.name) == (2, "step_000002")
    assert (found.trainer_folder / "model.bin").read_text() == "weights"
    first, second = found.controller_state().entries
    assert first.group is not None
    assert first.oldest_version == 1
    np.testing.assert_array_equal(first.group.rollouts[0].policy_version, [-1, -1, 1, 2])
    np.testing.assert_array_equal(first.group.rollouts[0].behaviour_logprob, np.float32([0, 0, -0.5, -0.5]))
    assert (second.admission, second.group) == (4, None)


def test_the_manifest_lists_every_file_and_comes_last(tmp_path: Path) -> None:
    checkpoint = write(CheckpointStore(tmp_path, keep=2), 40)
    manifest = json.loads((checkpoint.folder / "manifest.json").read_text())
    assert sorted(manifest["files"]) == ["controller.pkl", "trainer/model.bin"]
    assert manifest["files"]["trainer/model.bin"][0] == len("weights")
    assert (manifest["version"], manifest["lineage"]) == (40, 0)


def test_the_newest_ones_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for version in (10, 20, 30, 40):
        write(store, version)
    assert names(store) == ["step_000030", "step_000040"]


def test_versions_are_ordered_as_numbers(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=3)
    for version in (999_999, 1_000_000, 1_000_001):
        write(store, version)
    assert [c.version for c in store.complete()] == [999_999, 1_000_000, 1_000_001]
    assert store.newest() == store.complete()[-1]


def test_a_half_written_newest_folder_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    """Version 40 is complete; version 60 has no manifest and a truncated tensor file."""
    store = CheckpointStore(tmp_path, keep=5)
    write(store, 40)
    torn = store.folder / "step_000060"
    (torn / "trainer").mkdir(parents=True)
    (torn / "trainer" / "model.bin").write_text("wei")
    with pytest.warns(UserWarning, match=r"step_000060 is incomplete \(no manifest.json\)"):
        found = store.newest()
    assert found is not None
    assert found.version == 40


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "manifest"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path: Path, damage: str) -> None:
    store = CheckpointStore(tmp_path, keep=5)
    write(store, 40)
    path = write(store, 60).trainer_folder / "model.bin"
    if damage == "truncated":
        path.write_text("weigh")
    elif damage == "flipped":
        path.write_text("weighty")
    elif damage == "missing":
        path.unlink()
    else:
        (path.parent.parent / "manifest.json").write_text("{")
    with pytest.warns(UserWarning, match=r"step_000060 is damaged \(.+\); using the one before it"):
        found = store.newest()
    assert found is not None
    assert found.version == 40


def _replace_controller_part(checkpoint: Checkpoint, content: bytes) -> None:
    """As if it had been written like this: the manifest agrees."""
    (checkpoint.folder / "controller.pkl").write_bytes(content)
    manifest = json.loads((checkpoint.folder / "manifest.json").read_text())
    manifest["files"]["controller.pkl"] = [len(content), hashlib.sha256(content).hexdigest()]
    (checkpoint.folder / "manifest.json").write_text(json.dumps(manifest))


_MOVED = b"cheadrace.pipeline.nowhere\nControllerState\n."  # the class of a version that had it elsewhere


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (_MOVED, "controller.pkl cannot be read: ModuleNotFoundError"),
        (b"\x80\x05", "controller.pkl cannot be read: EOFError"),
        (pickle.dumps({"version": 60}), "controller.pkl holds a dict, not a controller's state"),
    ],
)
def test_a_controller_part_that_cannot_be_read_is_named_and_passed_over(
    tmp_path: Path, content: bytes, why: str
) -> None:
    store = CheckpointStore(tmp_path, keep=5)
    write(store, 40)
    bad = write(store, 60)
    _replace_controller_part(bad, content)
    with pytest.raises(CheckpointError, match=f"step_000060/{why}"):
        bad.controller_state()
    with pytest.warns(UserWarning, match=rf"step_000060 is damaged \(.*{why}.*\); using the one before it"):
        found = store.newest()
    assert found is not None
    assert found.version == 40


def test_a_state_of_another_version_is_told_by_what_it_lacks(tmp_path: Path) -> None:
    checkpoint = write(CheckpointStore(tmp_path, keep=5), 60)
    state = state_of(60)
    object.__delattr__(state, "spent")

    class Older(pickle.Pickler):
        def reducer_override(self, thing: object) -> object:
            if thing is not state:
                return NotImplemented
            fields = [60, 0, 600, 600, 0, ()]  # all but the last one
            return object.__new__, (ControllerState,), fields

    with open(checkpoint.folder / "controller.pkl", "wb") as file:
        Older(file).dump(state)
    with pytest.raises(CheckpointError, match="another version of Headrace: it lacks spent"):
        checkpoint.controller_state()


def test_what_was_spent_comes_back(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    spent = Spent(wall_s=12.5, trainer_busy_s=9.0, compute=Compute(device_s=25.0, tokens_generated=700, steps=40))
    store.commit(store.begin(40), replace(state_of(40), spent=spent))
    found = store.newest()
    assert found is not None
    assert found.controller_state().spent == spent


def test_a_given_up_future_does_not_come_back(tmp_path: Path) -> None:
    """Version 60 is damaged, so the run went on from 40 and wrote 50: 60 must not be found, nor push 50 out."""
    store = CheckpointStore(tmp_path, keep=1)
    write(store, 40)
    (write(store, 60).trainer_folder / "model.bin").write_text("x")
    write(store, 50)
    assert names(store) == ["step_000050"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.newest() == store.complete()[0]


class _Killed(BaseException):
    """The process is gone at this point."""


@pytest.mark.parametrize("at_rename", [1, 2, 3])
def test_killed_at_any_rename_a_checkpoint_is_loadable(
    tmp_path: Path, at_rename: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """keep 1, and the same version is written again: manifest, old one aside, new one in place. Killed before each."""
    store = CheckpointStore(tmp_path, keep=1)
    write(store, 20, "old")
    rename, calls = Path.rename, []

    def dying(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == at_rename:
            raise _Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dying)
    with pytest.raises(_Killed):
        write(store, 20, "new", lineage=1)
    monkeypatch.undo()
    after = CheckpointStore(tmp_path, keep=1)
    found = after.newest()
    assert found is not None
    assert found.version == 20
    assert (found.trainer_folder / "model.bin").read_text() == "old"
    write(after, 30)  # and what the dead process left is cleared away
    assert names(after) == ["step_000030"]


@pytest.mark.parametrize("keep", [1, 2])
def test_killed_while_old_ones_are_removed_the_new_one_is_there(
    tmp_path: Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path, keep=keep)
    for version in range(10, 10 * keep + 10, 10):
        write(store, version)

    def dying(*args: object, **kwargs: object) -> None:
        raise _Killed

    folder = store.begin(90)
    monkeypatch.setattr("shutil.rmtree", dying)
    with pytest.raises(_Killed):
        store.commit(folder, state_of(90))
    monkeypatch.undo()
    found = CheckpointStore(tmp_path, keep=keep).newest()
    assert found is not None
    assert found.version == 90


def test_no_space_keeps_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    write(store, 20)
    folder = store.begin(30)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pickle.dump", full)
    with pytest.raises(OSError, match="No space left"):
        store.commit(folder, state_of(30))
    monkeypatch.undo()
    store.discard(folder)
    assert names(store) == ["step_000020"]
    assert store.newest() is not None


def test_a_failed_rename_puts_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    write(store, 20, "old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.startswith(".writing") and target.name.startswith("step_"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        write(store, 20, "new")
    monkeypatch.undo()
    assert (store.folder / "step_000020" / "trainer" / "model.bin").read_text() == "old"


def test_leftovers_of_earlier_tries_are_removed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    store.begin(10)
    store.begin(12)
    assert names(store) == [".writing_step_000012"]
    assert store.newest() is None


def test_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    write(store, 10)
    (store.folder / "step_best").mkdir()
    write(store, 20)
    assert names(store) == ["step_000020", "step_best"]
