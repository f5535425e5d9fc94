import logging
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.protocols import Tracker
from headrace.tracking.fanout import Fanout


class Keeper:
    def __init__(self, fail_at: int | None = None, fail_close: bool = False) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.name = "keeper" if fail_at is None else "broken"
        self.closed = 0
        self._fail_at, self._fail_close = fail_at, fail_close

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == self._fail_at:
            raise OSError("no space left")
        self.rows.append((step, dict(metrics)))

    def close(self) -> None:
        self.closed += 1
        if self._fail_close:
            raise RuntimeError("cannot close")


def test_a_tracker_that_raises_is_switched_off_and_the_others_go_on(caplog: Any) -> None:
    good, bad = Keeper(), Keeper(fail_at=2, fail_close=True)
    trackers: list[Tracker] = [bad, good]
    fanout = Fanout(trackers)
    with caplog.at_level(logging.WARNING):
        for step in (1, 2, 3):
            fanout.log(step, {"x": step})
        fanout.close()
    assert [step for step, _ in good.rows] == [1, 2, 3]
    assert [step for step, _ in bad.rows] == [1]
    assert (good.closed, bad.closed) == (1, 1)
    assert fanout.disabled == {"broken": "at step 2: OSError: no space left"}
    assert caplog.text.count("tracker broken is switched off") == 1


def test_closing_twice_and_a_failing_close_are_harmless() -> None:
    bad = Keeper(fail_close=True)
    fanout = Fanout([bad])
    fanout.close()
    fanout.close()
    assert bad.closed == 1
    assert "RuntimeError: cannot close" in fanout.disabled["keeper"]


def test_ctrl_c_is_not_swallowed() -> None:
    class Interrupted(Keeper):
        def log(self, step: int, metrics: Mapping[str, float]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Fanout([Interrupted()]).log(1, {})
