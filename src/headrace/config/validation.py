"""From a tree of plain data to a ``Recipe``, with errors a person can act on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from headrace.config.keys import SHORTHANDS, all_keys, hint, section_paths
from headrace.config.layers import Tree
from headrace.config.sections import Recipe
from headrace.errors import ConfigError, nearest

_SHOWN = 4


def validate(tree: Tree, *, where: Callable[[str], str]) -> Recipe:
    """The recipe of a merged tree; lists pass for tuples and whole numbers for numbers, nothing else is converted.

    ``where`` says in which file (or override) a key path was written. Raises ``ConfigError`` with one sentence for each
    mistake: key path, what was found, what is allowed, the nearest valid name.
    """
    tree = _with_names(tree)
    try:
        return Recipe.model_validate_json(json.dumps(tree, default=_refuse))
    except ValidationError as error:
        sentences = _sentences(error, tree, where)
    more = f" And {len(sentences) - _SHOWN} more." if len(sentences) > _SHOWN else ""
    raise ConfigError(" ".join(sentences[:_SHOWN]) + more)


def _with_names(tree: Tree) -> Tree:
    """``algorithm: {loss: {clip_high: .28}}`` changes the default loss; its name need not be repeated."""
    algorithm = tree.get("algorithm")
    if not isinstance(algorithm, dict):
        return tree
    defaults = Recipe().algorithm
    named = {
        part: {"name": getattr(defaults, part).name, **algorithm[part]}
        for part in ("loss", "advantage")
        if isinstance(algorithm.get(part), dict) and "name" not in algorithm[part]
    }
    return {**tree, "algorithm": {**algorithm, **named}}


def _refuse(value: Any) -> Any:
    raise ConfigError(f"found {value!r}, which is neither text, number, truth value, list nor mapping.")


def _sentences(error: ValidationError, tree: Tree, where: Callable[[str], str]) -> list[str]:
    found: dict[str, str] = {}
    for item in error.errors(include_url=False):
        path, value = _locate(item["loc"], tree)
        found.setdefault(path, _sentence(item["type"], item["msg"], path, value, where))
    return list(found.values())


def _locate(loc: Sequence[int | str], tree: Any) -> tuple[str, Any]:
    """Key path and value of a pydantic location, which may hold parts that are not keys (union members, tags)."""
    path: list[str] = []
    value: Any = tree
    for part in loc:
        if isinstance(value, dict) and part in value:
            value = value[part]
            path.append(str(part))
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            break  # the list's own key says what is allowed; its whole value is shown
        elif isinstance(part, str) and ".".join([*path, part]) in all_keys():
            path.append(part)
            value = None
    return ".".join(path), value


def _sentence(kind: str, message: str, path: str, value: Any, where: Callable[[str], str]) -> str:
    start = f"{where(path)}: "
    if kind == "extra_forbidden" and path in all_keys():
        part = path.rpartition(".")[0]
        return f"{start}'{path}' belongs to {all_keys()[path].owner}, and {part}.name is another one."
    if kind == "extra_forbidden":
        return f"{start}'{path}' is not a key of a recipe.{hint(path)}"
    if kind == "union_tag_invalid":
        path, value = f"{path}.name", value.get("name")
    if kind == "value_error":
        return f"{start}{path}: {message.removeprefix('Value error, ')}."
    if path in section_paths():
        keys = [key.rpartition(".")[2] for key in all_keys() if key.rpartition(".")[0] == path]
        short = f" (or one text, its '{SHORTHANDS[path]}')" if path in SHORTHANDS else ""
        found = f"found {_show(value)}; " if not isinstance(value, dict) else ""
        return f"{start}section '{path}': {found}allowed is a mapping with the keys {', '.join(keys)}{short}."
    key = all_keys().get(path)
    allowed = key.allowed if key else message
    return f"{start}{path}: found {_show(value)}; allowed: {allowed}.{_near_value(value, allowed)}"


def _near_value(value: Any, allowed: str) -> str:
    texts = [part.strip(" '") for part in allowed.split("'")[1::2]]
    return nearest(value, texts) if isinstance(value, str) and texts else ""


def _show(value: Any) -> str:
    names = {str: "text", bool: "truth value", int: "whole number", float: "number", list: "list", dict: "mapping"}
    if value is None:
        return "nothing (null)"
    return f"{json.dumps(value)} ({names.get(type(value), type(value).__name__)})"
