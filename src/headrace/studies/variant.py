"""A variant of a recipe: what it changes, what it is called, and the name its files carry."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Variant:
    """``label`` is for people (``ratio_max=4``); ``changes`` maps key paths of the recipe to their values."""

    label: str
    changes: Mapping[str, Any]

    @property
    def overrides(self) -> list[str]:
        """``key.path=value`` texts as the recipe loader reads them (JSON is YAML)."""
        return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in self.changes.items()]

    @property
    def slug(self) -> str:
        """The label as a file name, the same in every study. What it cannot spell in full gets a digest."""
        words = re.split(r", |=| ", self.label)
        text = "-".join(words)
        if len(text) <= _LONGEST and all(_PLAIN.fullmatch(word) for word in words):
            return text
        digest = hashlib.sha256(self.label.encode()).hexdigest()[:6]
        return f"{re.sub(r'[^A-Za-z0-9_.+-]+', '-', text)[:_LONGEST].strip('-')}-{digest}"


def show(value: Any) -> str:
    """A value in short YAML: ``4``, ``null``, ``{name: cispo}``, ``[0.9, 0.95]``."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return json.dumps(value)
