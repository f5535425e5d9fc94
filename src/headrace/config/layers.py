"""Layers of a recipe: extended files first, then the file itself, then overrides; later layers win, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.config.keys import SHORTHANDS, all_keys, hint, optional_sections, section_paths
from headrace.config.yaml_text import parse_yaml
from headrace.errors import ConfigError

Tree = dict[str, Any]

SWITCHES = {"algorithm.loss": "name", "algorithm.advantage": "name", "task": "name"}
"""Sections whose named key decides what the others mean: a later layer that changes it drops what depends on it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One level of a recipe: nested mappings as written (shorthands spelt out), and where they were written."""

    source: str
    tree: Tree


def make_layer(source: str, data: Any) -> Layer:
    """A layer of the data of one file. Raises ``ConfigError`` when the file is not a mapping of sections."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(
            f"{source}: found {_kind(data)}; a recipe is a mapping of sections ({', '.join(_sections())})."
        )
    return Layer(source, _spell_out(data, ""))


def override_layer(overrides: Sequence[str]) -> Layer | None:
    """The layer of ``key.path=value`` texts, values read as YAML; None without any. The last of equal keys wins."""
    tree: Tree = {}
    for text in overrides:
        path, equals, value = text.partition("=")
        path = path.strip()
        if not equals or not path:
            raise ConfigError(f"override '{text}': allowed is key.path=value, such as optimizer.lr=1e-4.")
        known = all_keys().keys() | section_paths()
        if path not in known and not path.startswith("task.params."):
            raise ConfigError(f"override '{text}': '{path}' is not a key of a recipe.{hint(path)}")
        _put(tree, path, parse_yaml(value, source=f"override '{text}'"))
    return Layer("override", _spell_out(tree, "")) if overrides else None


def merge(layers: Sequence[Layer]) -> Tree:
    """One tree of all layers, the later one winning at each key."""
    merged: Tree = {}
    for layer in layers:
        merged = _merge(merged, layer.tree, "")
    return merged


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(key path, value) of every key written in a tree; an optional section that is null or empty counts as a key."""
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and path in section_paths() and (value or path not in optional_sections()):
            yield from leaves(value, path + ".")
        else:
            yield path, value


def written_in(layers: Sequence[Layer]) -> dict[str, int]:
    """Key path -> number of the last layer that wrote it."""
    return {path: number for number, layer in enumerate(layers) for path, _ in leaves(layer.tree)}


def _merge(below: Tree, above: Tree, prefix: str) -> Tree:
    section = prefix.rstrip(".")
    switch = SWITCHES.get(section)
    if switch and switch in above and below.get(switch, above[switch]) != above[switch]:
        below = {k: v for k, v in below.items() if k != "params"} if section == "task" else {}
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[name] = _merge(old, value, f"{prefix}{name}.") if both else value  # type: ignore[arg-type]
    return merged


def _spell_out(tree: Tree, prefix: str) -> Tree:
    """Write shorthands in full (``model: bundled``) and read an empty section as no keys."""
    full: Tree = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if path in section_paths():
            if value is None and path not in optional_sections():
                value = {}
            elif isinstance(value, str) and path in SHORTHANDS:
                value = {SHORTHANDS[path]: value}
            if isinstance(value, dict):
                value = _spell_out(value, path + ".")
        full[name] = value
    return full


def _put(tree: Tree, path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        if isinstance(inner, str) and section in SHORTHANDS:  # `model=x` came first, `model.dtype=y` adds to it
            inner = tree[section] = {SHORTHANDS[section]: inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"override '{path}': '{section}' was overridden as a whole by {inner!r} before.")
        tree = inner
    below = tree.get(name)
    if isinstance(value, str) and isinstance(below, dict) and path in SHORTHANDS:  # `model.dtype=y` came first
        below[SHORTHANDS[path]] = value
        return
    tree[name] = value


def _sections() -> list[str]:
    return sorted({path.partition(".")[0] for path in all_keys()})


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", int: "a number", float: "a number", bool: "a truth value"}.get(
        type(value), type(value).__name__
    )
