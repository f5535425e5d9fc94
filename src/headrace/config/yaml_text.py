"""YAML as recipes use it: ``1e-5`` is a number, a key written twice is an error, nothing but plain data is built."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from headrace.errors import ConfigError

_FLOAT = re.compile(
    r"""^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?(?:[0-9][0-9_]*)[eE][-+]?[0-9]+
    |[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*)$")
_FLOAT_TAG, _INT_TAG, _DATE_TAG = "tag:yaml.org,2002:float", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Safe loader with YAML 1.2 numbers: no dates, no sexagesimals (``1:30``), no octals by a leading zero."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise ConfigError(f"line {line}: key {key!r} is not text; keys of a recipe are names.")
            if key in seen:
                raise ConfigError(f"line {line}: key '{key}' is written twice (first on line {seen[key]}); keep one.")
            seen[key] = line
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, regexp) for tag, regexp in resolvers if tag not in (_FLOAT_TAG, _INT_TAG, _DATE_TAG)]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_FLOAT_TAG, _FLOAT, list("-+0123456789."))
_Loader.add_implicit_resolver(_INT_TAG, _INT, list("-+0123456789"))


def parse_yaml(text: str, *, source: str) -> Any:
    """Plain data of a YAML text. Raises ``ConfigError`` naming ``source`` and the line."""
    try:
        return yaml.load(text, Loader=_Loader)
    except ConfigError as error:
        raise ConfigError(f"{source}, {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{source}{where}: not valid YAML: {problem}.") from None


def dump_yaml(tree: Any) -> str:
    """YAML text that ``parse_yaml`` reads back as the same data; key order is kept."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Safe dumper that quotes every text our loader would read as something else."""


_Dumper.yaml_implicit_resolvers = {
    letter: list(resolvers) for letter, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
}
_Dumper.add_implicit_resolver(_FLOAT_TAG, _FLOAT, list("-+0123456789."))
