"""The controller's link to a data-parallel trainer: one rank answers, all of them take part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.pipeline.generator_pool import Link
from headrace.pipeline.messages import Save


class TrainerLink:
    """Steps and the end go to every rank, a checkpoint to the first, whose answers are the trainer's."""

    def __init__(self, first: Link, followers: Sequence[Link]) -> None:
        self._first, self._followers = first, list(followers)

    def send(self, message: Any) -> None:
        self._first.send(message)
        if not isinstance(message, Save):
            for link in self._followers:
                link.send(message)

    async def recv(self) -> Any:
        return await self._first.recv()
