"""Text to token ids and back, with the model folder's tokenizer and chat template (no torch, no transformers)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import DataError
from headrace.models.locate import eos_token_ids, token_text
from headrace.records import IntArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from headrace.tasks.chat_template import ChatTemplate

Message = Mapping[str, Any]

_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


class TextCodec:
    """Encodes prompts and decodes completions. Sampled ids are never encoded again from their text.

    ``eos_token_ids`` are the ids that end a completion: those the folder's files name and, where there is a chat
    template, the special token it puts behind an assistant's turn.
    """

    def __init__(self, folder: str | Path) -> None:
        from tokenizers import Tokenizer

        self.folder = Path(folder)
        file = self.folder / "tokenizer.json"
        if not file.is_file():
            raise DataError(f"model folder {self.folder} has no tokenizer.json; a fast tokenizer is needed.")
        try:
            self._tokenizer: Tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"{file} is not a tokenizer file: {error}.") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._config = _read_config(self.folder)
        self.special_tokens = {name: text for name in _SPECIAL if (text := token_text(self._config.get(name)))}
        self._bos_id = self._id(self.special_tokens.get("bos_token"))
        unknown = (self.special_tokens.get("unk_token"), getattr(self._tokenizer.model, "unk_token", None))
        self._unknown_ids = {i for token in unknown if (i := self._id(token)) is not None}
        self._prefix = self._find_prefix()
        self._template: ChatTemplate | None = None
        ends = set(eos_token_ids(self.folder))
        if self.has_chat_template:
            ends.update(self._turn_end())
        self.eos_token_ids: tuple[int, ...] = tuple(sorted(ends))

    @property
    def vocab_size(self) -> int:
        """Entries of the tokenizer, added tokens included; the model's embedding may have more rows."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def has_chat_template(self) -> bool:
        return (self.folder / "chat_template.jinja").is_file() or bool(self._config.get("chat_template"))

    def encode(self, text: str) -> IntArray:
        """Ids [P] of a raw prompt, with one BOS if the tokenizer adds one (or the text begins with it), no EOS."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[IntArray]:
        """``encode`` for several texts at once, in parallel where the tokenizer library can."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.asarray(self._with_prefix(encoding.ids), dtype=np.int32) for encoding in found]

    def encode_templated(self, texts: Sequence[str]) -> list[IntArray]:
        """Ids of texts a chat template made: it has the say over special tokens, none is added here."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.asarray(self._single_bos(encoding.ids), dtype=np.int32) for encoding in found]

    def encode_inside(self, text: str) -> IntArray:
        """Ids of a text that stands within a sequence: nothing is put in front of it or behind it.

        Raises ``DataError`` naming the characters that this tokenizer has no token for.
        """
        found = self._tokenizer.encode(text, add_special_tokens=False)
        covered: set[int] = set()
        for token_id, (start, end) in zip(found.ids, found.offsets, strict=True):
            if token_id not in self._unknown_ids:
                covered.update(range(start, end))
        missing = sorted({c for i, c in enumerate(text) if i not in covered})
        if missing:
            raise DataError(
                f"the tokenizer of {self.folder} has no token for {', '.join(map(repr, missing))} in the text {text!r}."
            )
        return np.asarray(found.ids, dtype=np.int32)

    def render_chat(self, messages: str | Sequence[Message]) -> str:
        """The template's text for a user's prompt (or messages), open for the assistant's answer.

        Raises ``DataError`` when the folder has no chat template or the template refuses the messages.
        """
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        return self._chat_template().render(turns, add_generation_prompt=True)

    def decode(self, ids: Sequence[int] | IntArray) -> str:
        """Text of ids without special tokens. Half a character at the end becomes U+FFFD; unknown ids are left out."""
        return self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)

    def token(self, token_id: int) -> str | None:
        """The token with this id as the vocabulary writes it, or None."""
        return self._tokenizer.id_to_token(token_id)

    def _chat_template(self) -> ChatTemplate:
        from headrace.tasks.chat_template import ChatTemplate

        if self._template is None:
            self._template = ChatTemplate.of_folder(self.folder, self._config, self.special_tokens)
        return self._template

    def _id(self, token: str | None) -> int | None:
        return self._tokenizer.token_to_id(token) if token else None

    def _find_prefix(self) -> list[int]:
        """What the tokenizer puts in front of a text: found by encoding one, since post-processors are opaque."""
        bare = self._tokenizer.encode("1", add_special_tokens=False).ids
        full = self._tokenizer.encode("1", add_special_tokens=True).ids
        start = next((k for k in range(len(full) - len(bare) + 1) if full[k : k + len(bare)] == bare), 0)
        prefix = full[:start]
        if self._config.get("add_bos_token") and self._bos_id is not None and self._bos_id not in prefix:
            prefix = [self._bos_id, *prefix]  # transformers adds it by this setting, not by tokenizer.json
        return prefix

    def _with_prefix(self, ids: list[int]) -> list[int]:
        size = len(self._prefix)
        return self._single_bos(ids) if size and ids[:size] == self._prefix else self._single_bos(self._prefix + ids)

    def _single_bos(self, ids: list[int]) -> list[int]:
        bos = self._bos_id if self._bos_id is not None else (self._prefix[0] if self._prefix else None)
        while bos is not None and ids[:2] == [bos, bos]:
            ids = ids[1:]
        return ids

    def _turn_end(self) -> list[int]:
        """The first special token behind an assistant's text in the chat template, which ends its turn."""
        marker = "xyzzy"
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": marker}]
        try:
            text = self._chat_template().render(turns, add_generation_prompt=False)
        except DataError:
            return []  # a template for other roles; nothing can be learnt from it
        tail = text.rpartition(marker)[2]
        if marker not in text or not tail.strip():
            return []
        special = {i for i, added in self._tokenizer.get_added_tokens_decoder().items() if added.special}
        found = [i for i in self._tokenizer.encode(tail, add_special_tokens=False).ids if i in special]
        return found[:1]


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / "tokenizer_config.json"
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file} cannot be read as JSON: {error}.") from None
    return data if isinstance(data, dict) else {}
