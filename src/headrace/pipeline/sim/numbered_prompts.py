"""A prompt source of numbered prompts, in order, pass after pass."""

from __future__ import annotations

import numpy as np

from headrace.records import Prompt


class NumberedPrompts:
    """``at(i)`` is prompt ``i % n`` of pass ``i // n``."""

    def __init__(self, n: int, name: str = "numbers") -> None:
        self.name = name
        self._n = n

    def __len__(self) -> int:
        return self._n

    def index(self, position: int) -> int:
        """The prompt's number."""
        return position % self._n

    def at(self, position: int) -> Prompt:
        epoch, index = divmod(position, self._n)
        return Prompt(
            prompt_id=f"{self.name}-{index}",
            source=self.name,
            text=str(index),
            token_ids=np.asarray([1, 2], np.int32),
            row={"index": index},
            index=index,
            epoch=epoch,
        )
