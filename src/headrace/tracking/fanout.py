"""Several trackers as one. A tracker that fails is switched off with a warning; the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headrace.protocols import Tracker

logger = logging.getLogger("headrace.tracking")


class Fanout:
    """A ``Tracker`` that hands metrics on to others and never raises.

    ``disabled`` maps the name of each tracker that failed to the reason.
    """

    name = "fanout"

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self.disabled: dict[str, str] = {}
        self._live = list(trackers)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for tracker in tuple(self._live):
            try:
                tracker.log(step, metrics)
            except Exception as error:
                self._disable(tracker, f"at step {step}: {type(error).__name__}: {error}")

    @property
    def num_unwritten(self) -> int:
        """Steps that a tracker holds back because the disk is full."""
        return max((int(getattr(tracker, "num_unwritten", 0)) for tracker in self._live), default=0)

    def close(self) -> None:
        """Close every tracker that still works. Closing twice is harmless."""
        live, self._live = self._live, []
        for tracker in live:
            try:
                tracker.close()
            except Exception as error:
                self._warn(tracker, f"while closing: {type(error).__name__}: {error}")

    def _disable(self, tracker: Tracker, reason: str) -> None:
        self._live.remove(tracker)
        self._warn(tracker, reason)
        try:
            tracker.close()
        except Exception:
            logger.debug("a tracker that was switched off did not close either", exc_info=True)

    def _warn(self, tracker: Tracker, reason: str) -> None:
        name = str(getattr(tracker, "name", type(tracker).__name__))
        self.disabled[name] = reason
        logger.warning("tracker %s is switched off, the run goes on; it failed %s", name, reason)
