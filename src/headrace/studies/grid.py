"""``key=a,b,c`` arguments: which of them span a grid, and the variants at its points."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.config.yaml_text import parse_yaml
from headrace.errors import ConfigError
from headrace.studies.variant import Variant, show


@dataclass(frozen=True, slots=True)
class Axis:
    """One key of the recipe and the values it takes, at least two."""

    key: str
    values: tuple[Any, ...]


def split_arguments(arguments: Sequence[str]) -> tuple[list[Axis], list[str]]:
    """The axes of the grid, and the ``key.path=value`` texts with one value, which hold for every variant.

    Values are the entries of a YAML flow list without its brackets: ``4,5,8``, ``"a, b",c``, ``{name: cispo},{name:
    gspo}``. Values that are lists themselves may stand in one more pair of brackets: ``[[.9,.95],[.9,.99]]``. Raises
    ``ConfigError`` for a value or key that is written twice.
    """
    axes: list[Axis] = []
    fixed: list[str] = []
    for text in arguments:
        key, equals, values = text.partition("=")
        found = _values(values) if equals else ()
        if len(found) < 2:
            fixed.append(text)
            continue
        key = key.strip()
        if key in (axis.key for axis in axes):
            raise ConfigError(f"'{key}' spans the grid twice; write its values in one argument: {key}=a,b,c.")
        if twice := [show(value) for i, value in enumerate(found) if value in found[:i]]:
            raise ConfigError(f"'{text}': the value {twice[0]} is written twice.")
        axes.append(Axis(key, found))
    return axes, fixed


def grid(axes: Sequence[Axis]) -> list[Variant]:
    """Every combination of the axes' values, the last axis moving fastest; ``[]`` without axes."""
    if not axes:
        return []
    names = _short_names([axis.key for axis in axes])
    return [
        Variant(
            ", ".join(f"{name}={show(value)}" for name, value in zip(names, point)),
            {axis.key: value for axis, value in zip(axes, point)},
        )
        for point in itertools.product(*(axis.values for axis in axes))
    ]


def find_variant(variants: Sequence[Variant], wanted: str) -> Variant:
    """The variant of a label, or of its changes in full or partly (``algorithm.loss.ratio_max=4``)."""
    parts = {part.strip() for part in wanted.split(", ")}
    for variant in variants:
        full = {f"{key}={show(value)}" for key, value in variant.changes.items()}
        if wanted == variant.label or (parts and parts <= full | set(variant.label.split(", "))):
            return variant
    labels = ", ".join(f"'{variant.label}'" for variant in variants)
    raise ConfigError(f"--baseline '{wanted}' is none of the variants; allowed: {labels}.")


def _values(text: str) -> tuple[Any, ...]:
    """Entries of the flow list; what is no such list is one value, for the recipe loader to judge."""
    try:
        found = parse_yaml(f"[{text}]", source="values")
    except ConfigError:
        return ()
    if len(found) == 1 and isinstance(found[0], list) and found[0] and all(isinstance(v, list) for v in found[0]):
        found = found[0]
    return tuple(found)


def _short_names(keys: Sequence[str]) -> list[str]:
    """The last words of each key that tell it from the others; ``name`` alone says nothing."""
    return [_short(key, [other for other in keys if other != key]) for key in keys]


def _short(key: str, others: Sequence[str]) -> str:
    words = key.split(".")
    for count in range(1 if words[-1] != "name" else 2, len(words)):
        tail = words[-count:]
        if all(other.split(".")[-count:] != tail for other in others):
            return ".".join(tail)
    return key
