"""The trainer's process: take a batch, step, publish, answer; repeat."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.pipeline.messages import Save, Saved, Stepped, Stop, TrainerReady, TrainStep
from headrace.protocols import Trainer, Transport, WeightWriter
from headrace.records import WeightUpdate


class FollowerRole:
    """A further rank of a data-parallel trainer: takes the first one's batches, says and publishes nothing."""

    def __init__(
        self, make_trainer: Callable[[], Trainer], controller: Transport, *, resume: str | None = None
    ) -> None:
        self._make_trainer = make_trainer
        self._controller = controller
        self._resume = resume

    def run(self) -> None:
        trainer = self._make_trainer()
        if self._resume is not None:
            trainer.load(self._resume)
        while not isinstance(message := self._controller.recv(), Stop):
            if isinstance(message, TrainStep):
                trainer.step(message.batch)


class TrainerRole:
    """Serves the controller until told to stop.

    ``open_writer`` gets the first update (its size decides how much shared memory is asked for) and returns the
    writer everything is published through. ``resume`` is the trainer's part of a checkpoint, or None.
    """

    def __init__(
        self,
        make_trainer: Callable[[], Trainer],
        controller: Transport,
        open_writer: Callable[[WeightUpdate], WeightWriter],
        *,
        resume: str | None = None,
    ) -> None:
        self._make_trainer = make_trainer
        self._controller = controller
        self._open_writer = open_writer
        self._resume = resume

    def run(self) -> None:
        """Load, publish what was loaded, then serve."""
        self._trainer = self._make_trainer()
        if self._resume is not None:
            self._trainer.load(self._resume)
        first = self._trainer.publishable()
        self._writer = self._open_writer(first)
        self._writer.publish(first)
        self._controller.send(TrainerReady(version=self._trainer.version, num_parameters=sum(_num_elements(first))))
        while self._obey(self._controller.recv()):
            pass

    def _obey(self, message: object) -> bool:
        match message:
            case TrainStep(batch=batch):
                started = time.perf_counter()
                result = self._trainer.step(batch)
                trained = time.perf_counter()
                self._writer.publish(self._trainer.publishable())
                published = time.perf_counter()
                self._controller.send(Stepped(result=result, train_s=trained - started, publish_s=published - trained))
            case Save(folder=folder):
                self._controller.send(self._save(folder))
            case Stop():
                return False
            case _:
                raise TypeError(f"the trainer does not know the message {type(message).__name__}")
        return True

    def _save(self, folder: str) -> Saved:
        started = time.perf_counter()
        error = ""
        try:
            self._trainer.save(folder)
        except OSError as problem:
            error = f"the trainer's part could not be written to {folder}: {problem}"
        return Saved(folder=folder, save_s=time.perf_counter() - started, error=error)


def _num_elements(update: WeightUpdate) -> list[int]:
    counts = []
    for spec in update.specs:
        count = 1
        for size in spec.shape:
            count *= size
        counts.append(count)
    return counts
