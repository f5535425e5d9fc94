"""From a row to the prompt a model reads: the column, the chat template, the token ids, and whether it fits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import DataError
from headrace.records import IntArray
from headrace.tasks.text import TextCodec

Row = Mapping[str, Any]

_CHUNK = 512


@dataclass(frozen=True, slots=True)
class PromptEncoder:
    """Makes the text and ids of rows. With ``chat`` the column is a user's text, or a list of messages."""

    codec: TextCodec
    prompt_column: str = "prompt"
    chat: bool = False

    def text(self, row: Row) -> str:
        """Exactly the text that is encoded, the chat template's parts included."""
        prompt = row[self.prompt_column]
        if self.chat:
            return self.codec.render_chat(prompt)
        if not isinstance(prompt, str):
            raise DataError(
                f"column '{self.prompt_column}' holds a {type(prompt).__name__}; allowed: text, or a list of messages "
                "with task.chat true."
            )
        return prompt

    def encode(self, text: str) -> IntArray:
        """Ids [P] of a text that ``text`` made."""
        return self.codec.encode_templated([text])[0] if self.chat else self.codec.encode(text)

    def lengths(self, rows: Sequence[Row]) -> list[int]:
        """Tokens of each row's prompt as it is sampled from."""
        lengths: list[int] = []
        encode = self.codec.encode_templated if self.chat else self.codec.encode_many
        for start in range(0, len(rows), _CHUNK):
            lengths += [len(ids) for ids in encode([self.text(row) for row in rows[start : start + _CHUNK]])]
        return lengths


def prompt_id(prompt: Any, answer: Any) -> str:
    """Stable name of a problem: 16 hex digits of a hash of prompt and gold answer."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, ensure_ascii=True, default=str)
    key = f"{len(text)}:{text}{answer if answer is not None else ''}"
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
