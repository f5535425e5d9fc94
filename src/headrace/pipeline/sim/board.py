"""Where published weights are seen: the simulation's shared memory."""

from __future__ import annotations

from headrace.pipeline.signal import Changed


class Board:
    """The newest version there is. Readers wait on ``changed``."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.changed = Changed()

    def publish(self, version: int) -> None:
        self.version = version
        self.changed.notify()
