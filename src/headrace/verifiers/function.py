"""A user's Python function as verifier, with TRL's signature: lists in, a list of rewards out."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.errors import ConfigError, nearest
from headrace.records import Verdict

PASS_REWARD = 1.0
"""A completion counts as passed when the function gives it at least this much."""


class FunctionVerifier:
    """Calls ``function(completions=[text], prompts=[...], COLUMN=[...], ...)`` and reads one reward from the list.

    Columns the function does not name are passed only if it takes ``**kwargs``. Prompts that are lists of messages get
    completions in that form too, as TRL does. None for a completion means that it cannot be judged.
    """

    def __init__(self, function: Callable[..., Any], prompt_column: str = "prompt") -> None:
        self.name = f"function {getattr(function, '__name__', 'reward')}"
        self._function, self._prompt_column = function, prompt_column
        parameters = inspect.signature(function).parameters
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._names = set(parameters)

    @classmethod
    def load(cls, reference: str, prompt_column: str = "prompt") -> FunctionVerifier:
        """The function of ``file.py:name`` or ``package.module:name``. Raises ``ConfigError`` saying what is wrong."""
        place, _, name = reference.rpartition(":")
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
        function = getattr(module, name, None)
        if not callable(function):
            names = [n for n, v in vars(module).items() if inspect.isfunction(v)]
            raise ConfigError(
                f"reward.verifier '{reference}': there is no function '{name}' in {place}; it has: "
                f"{', '.join(names) or 'none'}.{nearest(name, names)}"
            )
        return cls(function, prompt_column)

    def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        result = self._function(**self._arguments(completion, row))
        if inspect.iscoroutine(result):
            import asyncio

            result = asyncio.run(result)
        return _read(result, self.name)

    def _arguments(self, completion: str, row: Mapping[str, Any]) -> dict[str, Any]:
        prompt = row.get(self._prompt_column)
        conversational = isinstance(prompt, list)
        message: Any = [{"role": "assistant", "content": completion}] if conversational else completion
        columns = {name: [value] for name, value in row.items() if name not in (self._prompt_column, "completions")}
        every = {**columns, "prompts": [prompt], "completions": [message]}
        return every if self._takes_all else {name: value for name, value in every.items() if name in self._names}


def _read(result: Any, who: str) -> Verdict:
    values = list(result) if not isinstance(result, str | bytes | Mapping) and hasattr(result, "__iter__") else None
    if values is None or len(values) != 1:
        shown = f"{len(values)} values" if values is not None else type(result).__name__
        raise TypeError(f"{who} returned {shown} for 1 completion; it must return a list with one reward for each")
    if values[0] is None:
        return Verdict(reward=None, error=f"{who} returned None")
    reward = float(values[0])
    if not math.isfinite(reward):
        return Verdict(reward=None, error=f"{who} returned {reward}")
    return Verdict(reward=reward, passed=reward >= PASS_REWARD)


def _load_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise ConfigError(
            f"reward.verifier: file {file} does not exist; allowed: 'file.py:name' of a file that is there."
        )
    spec = importlib.util.spec_from_file_location(f"headrace_user_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"reward.verifier: {file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(file.parent))  # a helper module beside the file may be imported
    return _run(lambda: spec.loader.exec_module(module) or module, str(file))  # type: ignore[union-attr]


def _load_module(name: str) -> ModuleType:
    sys.path.append(os.getcwd())
    return _run(lambda: importlib.import_module(name), name)


def _run(load: Callable[[], ModuleType], what: str) -> ModuleType:
    try:
        return load()
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"reward.verifier: {what} does not import: {type(error).__name__}: {error}.") from None
