"""What a role's process is made from: everything it needs to build the role, in a form that pickles."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import HeadraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """One process of a run.

    ``factory`` names a callable ("package.module:callable"); the process calls ``factory(context, **args).run()``.
    ``threads`` is the number of compute threads its libraries may use. ``env`` is added to its environment, ``python``
    runs it (default: the supervisor's own).
    """

    role: str  # its kind: "controller", "generator", "trainer"
    name: str  # unique in the run; also its log's name
    factory: str
    args: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first message a role's process gets."""

    spec: RoleSpec
    run_id: str
    run_folder: str


def load_factory(path: str) -> Callable[..., Any]:
    """The callable behind "package.module:callable". Raises ``HeadraceError`` when there is none."""
    module_name, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise HeadraceError(f"cannot load the role {path!r}: {error}") from error
    if not callable(found):
        raise HeadraceError(f"cannot load the role {path!r}: it is not callable")
    return found  # type: ignore[no-any-return]
