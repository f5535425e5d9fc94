"""A trainer by script: it takes its time, publishes version + 1, and checks what it is given as the real one does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.pipeline.messages import Save, Saved, Stepped, Stop, TrainerReady, TrainStep
from headrace.pipeline.sim.board import Board
from headrace.pipeline.sim.chance import Chance
from headrace.pipeline.sim.links import MemoryLink
from headrace.pipeline.sim.scenario import Scenario
from headrace.records import PackedBatch, StepResult
from headrace.training.checks import check_batch, check_lag

STATE = "version.txt"


class ScriptedTrainer:
    """``batches`` are the steps it was given, in order; ``error`` is what it died of, if it did."""

    def __init__(self, scenario: Scenario, board: Board, link: MemoryLink, *, lineage: int) -> None:
        self._scenario, self._board, self._link, self._lineage = scenario, board, link, lineage
        self._chance = Chance(scenario.seed)
        self.version = board.version
        self.batches: list[PackedBatch] = []
        self.error: Exception | None = None

    async def run(self) -> None:
        """Serve until told to stop, or until the scenario has it die."""
        self._link.send(TrainerReady(version=self.version, num_parameters=1))
        try:
            async with asyncio.timeout(self._scenario.trainer_dies_at_s):
                while await self._obey(await self._link.recv()):
                    pass
        except Exception as error:
            self.error = error
            self._link.close()

    async def _obey(self, message: object) -> bool:
        match message:
            case TrainStep(batch=batch):
                await self._train(batch)
            case Save(folder=folder):
                self._link.send(self._save(Path(folder)))
            case Stop():
                return False
            case _:
                raise TypeError(f"the trainer does not know the message {type(message).__name__}")
        return True

    async def _train(self, batch: PackedBatch) -> None:
        check_batch(batch, version=self.version, lineage=self._lineage)
        for update in batch.updates:
            for micro in update:
                check_lag(micro, step=batch.step, max_lag=batch.max_lag)
        self.batches.append(batch)
        if batch.step == self._scenario.trainer_hangs_at:
            await asyncio.Event().wait()
        train_s = self._chance.delay(self._scenario.train_s, "train", batch.step)
        await asyncio.sleep(train_s)
        self.version += 1
        self._board.publish(self.version)
        publish_s = self._chance.delay(self._scenario.publish_s, "publish", batch.step)
        await asyncio.sleep(publish_s)
        result = StepResult(step=batch.step, version=self.version, metrics={})
        self._link.send(Stepped(result=result, train_s=train_s, publish_s=publish_s))

    def _save(self, folder: Path) -> Saved:
        if self.version in self._scenario.save_fails_at:
            return Saved(folder=str(folder), save_s=0.0, error="no space left on device")
        (folder / STATE).write_text(str(self.version))
        return Saved(folder=str(folder), save_s=0.0)
