"""Prompts by position: seeded passes over rows, ids encoded when a prompt is asked for."""

from __future__ import annotations

from typing import Any, Protocol

from headrace.errors import DataError
from headrace.records import Prompt
from headrace.tasks.prompts import PromptEncoder, Row, prompt_id
from headrace.tasks.shuffle import epoch_key, shuffled


class Rows(Protocol):
    """Numbered rows; a list is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class RowSource:
    """A ``PromptSource`` over rows. ``at(position)`` depends on the position and the seed alone.

    Pass ``shuffle=False`` for rows that are random already. Rows hold plain Python values.
    """

    def __init__(
        self,
        rows: Rows,
        encoder: PromptEncoder,
        *,
        name: str,
        seed: int = 0,
        answer_column: str = "answer",
        shuffle: bool = True,
    ) -> None:
        if len(rows) == 0:
            raise DataError(f"{name}: there are no rows; at least one is needed.")
        self.name = name
        self._rows, self._encoder, self._seed = rows, encoder, seed
        self._answer_column, self._shuffle = answer_column, shuffle

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Row:
        """The row with this number (not position), as it is judged."""
        found: Row = self._rows[index]
        return found

    def index(self, position: int) -> int:
        """Number of the row at a position."""
        epoch, place = divmod(position, len(self._rows))
        return shuffled(place, len(self._rows), epoch_key(self._seed, epoch)) if self._shuffle else place

    def at(self, position: int) -> Prompt:
        """The prompt at a position of the endless stream, >= 0."""
        index = self.index(position)
        row = self._rows[index]
        text = self._encoder.text(row)
        return Prompt(
            prompt_id=prompt_id(row[self._encoder.prompt_column], row.get(self._answer_column)),
            source=self.name,
            text=text,
            token_ids=self._encoder.encode(text),
            row=row,
            index=index,
            epoch=position // len(self._rows),
        )
