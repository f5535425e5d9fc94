"""Writes checkpoints at step boundaries, by a cadence. A disk that is full costs the checkpoint, not the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from headrace.pipeline.cadence import Cadence
from headrace.pipeline.checkpoint import TRAINER_PART, CheckpointStore, ControllerState
from headrace.pipeline.messages import Save, Saved
from headrace.pipeline.parts import Parts
from headrace.pipeline.watchdog import Progress


class CheckpointWriter:
    """The trainer writes its part first, then the store adds the controller's and makes the folder complete."""

    def __init__(
        self, parts: Parts, cadence: Cadence, progress: Progress, make_state: Callable[[], ControllerState]
    ) -> None:
        self._p, self._progress, self._make_state = parts, progress, make_state
        self.cadence = cadence
        self._saved: asyncio.Future[Saved] | None = None  # set while the trainer writes its part

    @property
    def waits_for_trainer(self) -> bool:
        return self._saved is not None

    def due(self, version: int) -> bool:
        return self._p.checkpoints is not None and self.cadence.due(version, self._p.clock())

    def trainer_saved(self, message: Saved) -> None:
        """The trainer's answer has come."""
        assert self._saved is not None
        self._saved.set_result(message)

    async def write(self, version: int) -> None:
        """Write a checkpoint; call at a step boundary. What goes wrong with the disk goes to the recorder."""
        self.cadence.done(version, self._p.clock())
        store = self._p.checkpoints
        if store is None:
            return
        try:
            error = await self._fill(store, store.begin(version))
        except OSError as problem:
            error = str(problem)
        self._p.recorder.checkpointed(version, error)

    async def _fill(self, store: CheckpointStore, folder: Path) -> str:
        """Fill and commit a checkpoint folder; returns why that failed ('' = it did not). Leaves nothing half done."""
        saved = await self._save_trainer(folder)
        error = saved.error
        if not error:
            try:
                # Hashing and syncing gigabytes takes seconds, in which generators must not be left without orders.
                with self._progress.paused():
                    await asyncio.to_thread(store.commit, folder, self._make_state())
            except OSError as problem:
                error = str(problem)
        if error:
            store.discard(folder)
        return error

    async def _save_trainer(self, folder: Path) -> Saved:
        self._saved = asyncio.get_running_loop().create_future()
        self._p.trainer.send(Save(folder=str(folder / TRAINER_PART)))
        try:
            return await self._saved
        finally:
            self._saved = None
