"""Chat templates: Jinja texts that come with a model, rendered in a sandbox because they come from others."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace.errors import DataError

_GENERATION_TAG = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")


class ChatTemplate:
    """A compiled template with the special tokens it may write."""

    def __init__(self, text: str, special_tokens: Mapping[str, str], source: str) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens)
        # {% generation %} marks assistant text for masks; here the sampled ids are known and the marks are not needed.
        # The dash inside a tag eats white space, so it is kept as an empty comment.
        text = _GENERATION_TAG.sub(_as_comment, text)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_refuse, strftime_now=_now)
        try:
            self._template = environment.from_string(text)
        except jinja2.TemplateError as error:
            raise DataError(f"chat template of {source} does not compile: {error}.") from None

    @classmethod
    def of_folder(cls, folder: Path, config: Mapping[str, Any], special_tokens: Mapping[str, str]) -> ChatTemplate:
        """The template of a model folder: ``chat_template.jinja``, else the tokenizer config's (named) one."""
        file = folder / "chat_template.jinja"
        text: Any = file.read_text(encoding="utf-8") if file.is_file() else config.get("chat_template")
        if isinstance(text, list):
            named = {entry.get("name"): entry.get("template") for entry in text}
            text = named.get("default")
        if not isinstance(text, str) or not text:
            raise DataError(
                f"task.chat is true, but the model in {folder} has no chat template (neither chat_template.jinja nor "
                "'chat_template' in tokenizer_config.json); allowed: task.chat false, or a chat model."
            )
        return cls(text, special_tokens, str(folder))

    def render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool) -> str:
        """The text of a conversation. Raises ``DataError`` with the template's own words when it refuses."""
        try:
            return self._template.render(
                messages=list(messages), add_generation_prompt=add_generation_prompt, **self._special_tokens
            )
        except Exception as error:  # templates may fail in any way Python can
            raise DataError(f"chat template of {self.source} refuses these messages: {error}.") from None


def _as_comment(match: re.Match[str]) -> str:
    tag = match.group()
    return ("{#-" if tag.startswith("{%-") else "{#") + " " + ("-#}" if tag.endswith("-%}") else "#}")


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
