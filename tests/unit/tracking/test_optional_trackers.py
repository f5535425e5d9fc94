import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.tracking.tensorboard import TensorBoardTracker
from headrace.tracking.wandb import WandbTracker


def test_tensorboard_reads_back_what_was_logged(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tracker = TensorBoardTracker(tmp_path)
    tracker.log(1, {"reward/mean": 0.25, "loss/entropy": math.nan})
    tracker.log(2, {"reward/mean": 0.5})
    tracker.close()
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    for name in ("reward/mean", "reward", "critic/score/mean"):
        assert [(event.step, event.value) for event in events.Scalars(name)] == [(1, 0.25), (2, 0.5)]
    assert "loss/entropy" not in events.Tags()["scalars"]


def test_tensorboard_hides_steps_after_the_resume_step(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    first = TensorBoardTracker(tmp_path, wall_time=lambda: 1.0)
    for step in (1, 2, 3):
        first.log(step, {"x": step})
    first.close()
    second = TensorBoardTracker(tmp_path, resume_step=1, wall_time=lambda: 2.0)
    second.log(2, {"x": 20})
    second.close()
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("x")] == [(1, 1.0), (2, 20.0)]


def test_tensorboard_does_not_load_torch(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from headrace.tracking.tensorboard import TensorBoardTracker\n"
        f"TensorBoardTracker({str(tmp_path)!r}).close()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("module", "extra"), [("tensorboard", "tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_is_a_config_error(
    module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"tracking.also.*headrace\[{extra}\]"):
        TensorBoardTracker(tmp_path) if module == "tensorboard" else WandbTracker(tmp_path, run_id="r")


class FakeWandb(SimpleNamespace):
    """The few calls the tracker makes; ``online`` says whether the server answers."""

    def __init__(self, *, logged_in: bool, online: bool = True) -> None:
        super().__init__(started=[], logged=[], torn_down=0, finished=0)
        self._logged_in, self._online = logged_in, online

    def Settings(self, **settings: Any) -> dict[str, Any]:  # noqa: N802 - the package's own name
        return settings

    def login(self, *, prompt: bool) -> bool:
        assert prompt is False
        return self._logged_in

    def init(self, **arguments: Any) -> "FakeWandb":
        self.started.append(arguments["mode"])
        if arguments["mode"] == "online" and not self._online:
            raise TimeoutError("no answer")
        return self

    def teardown(self) -> None:
        self.torn_down += 1

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.logged.append((step, dict(metrics)))

    def finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize(
    ("logged_in", "online", "mode", "started"),
    [
        (True, True, None, ["online"]),
        (False, True, None, ["offline"]),
        (True, False, None, ["online", "offline"]),
        (True, False, "online", ["online", "offline"]),
        (True, True, "disabled", ["disabled"]),
    ],
)
def test_wandb_goes_offline_rather_than_fail(
    logged_in: bool, online: bool, mode: str | None, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandb(logged_in=logged_in, online=online)
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("WANDB_MODE", mode)
    tracker = WandbTracker(tmp_path, run_id="run", config={"a": 1})
    tracker.log(3, {"own": 0.5, "bad": math.inf})
    tracker.close()
    assert fake.started == started
    assert fake.logged == [(3, {"own": 0.5})]
    assert (fake.torn_down, fake.finished) == (len(started) - 1, 1)
