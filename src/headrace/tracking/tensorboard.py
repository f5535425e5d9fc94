"""TensorBoard event files, written with TensorBoard's own writer (no torch, no TensorFlow)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.errors import ConfigError
from headrace.tracking.aliases import add_aliases

FLUSH_S = 5  # seconds of metrics a kill may cost at most


class TensorBoardTracker:
    """A ``Tracker`` that writes scalars to ``folder`` (``tensorboard --logdir FOLDER`` shows them).

    ``resume_step`` tells TensorBoard that this attempt starts again after that step, so that it hides what an earlier
    attempt wrote beyond it.
    """

    name = "tensorboard"

    def __init__(
        self, folder: str | Path, *, resume_step: int | None = None, wall_time: Callable[[], float] = time.time
    ) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ConfigError(
                "tracking.also: 'tensorboard' is not installed; pip install 'headrace[tensorboard]'"
            ) from error
        self._event, self._summary, self._wall_time = Event, Summary, wall_time
        self._writer = EventFileWriter(str(folder), flush_secs=FLUSH_S)
        if resume_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=wall_time(), step=resume_step + 1, session_log=start))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the finite values of one step, under our names and the familiar ones of other libraries."""
        values = [
            self._summary.Value(tag=tag, simple_value=float(value))
            for tag, value in add_aliases(metrics).items()
            if math.isfinite(value)
        ]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=self._wall_time(), step=step, summary=summary))

    def close(self) -> None:
        self._writer.close()
