"""Recipes from YAML files: one ``extends:``, overrides, strict validation. ``write_recipe`` and ``load`` are "
"inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.config.conflicts import Inert, fights, inert_keys
from headrace.config.keys import all_keys, section_paths
from headrace.config.layers import Layer, Tree, leaves, make_layer, merge, override_layer, written_in
from headrace.config.sections import Recipe
from headrace.config.validation import validate
from headrace.config.yaml_text import dump_yaml, parse_yaml
from headrace.errors import ConfigError, nearest

RECIPE_FILE = "recipe.yaml"
"""Name of the resolved recipe in a run folder."""


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe and where it comes from.

    ``written`` maps each key path that somebody wrote to the file (or ``"override"``) that had the last word; ``notes``
    lists inherited keys that this recipe leaves without effect (they hold their defaults in ``recipe``).
    """

    recipe: Recipe
    name: str
    source: str
    written: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Inert, ...] = ()


def load_recipe(path_or_name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a file or bundled name with ``key.path=value`` overrides. Raises ``ConfigError``."""
    return load(path_or_name, overrides).recipe


def load(path_or_name: str | Path, overrides: Sequence[str] = ()) -> LoadedRecipe:
    """Like ``load_recipe``, with the origin of every key."""
    file = find_recipe(str(path_or_name))
    layers = _read_layers(file, ())
    override = override_layer(overrides)
    if override is not None:
        layers.append(_absolute(override, Path.cwd()))
    numbers = written_in(layers)

    def where(path: str) -> str:
        under = [number for key, number in numbers.items() if key == path or key.startswith(path + ".")]
        above = [number for key, number in numbers.items() if path.startswith(key + ".")]
        return layers[max(under or above or [len(layers) - 1])].source

    tree = merge(layers)
    recipe = validate(tree, where=where)
    if mistakes := fights(recipe):
        raise ConfigError(f"{file}: " + " ".join(mistakes))
    notes = _judge_inert(recipe, numbers, where)
    written = {path: layers[number].source for path, number in numbers.items()}
    recipe = validate(_without(tree, {note.key for note in notes}), where=where)
    return LoadedRecipe(recipe, _name(file), str(file), written, notes)


def write_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write every key that has an effect; ``load`` gives an equal recipe back, whatever later defaults are."""
    inert = {item.key for item in inert_keys(recipe)}
    tree = _without(recipe.model_dump(mode="json", by_alias=True), inert)
    Path(path).write_text("# Every key of the run, defaults included.\n" + dump_yaml(tree), encoding="utf-8")


def recipe_folder() -> Path:
    """Folder of the bundled recipes: inside the package when installed, beside ``src`` in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "recipes"
    return inside if inside.is_dir() else package.parents[1] / "recipes"


def bundled_recipes() -> dict[str, Path]:
    """Name (``demo``, ``cpu/grpo-smollm2``) -> file."""
    folder = recipe_folder()
    return {str(f.relative_to(folder).with_suffix("")): f for f in sorted(folder.rglob("*.yaml"))}


def find_recipe(path_or_name: str, beside: Path | None = None) -> Path:
    """The file meant: a path (relative to ``beside`` or the working folder), or the name of a bundled recipe."""
    path = Path(path_or_name).expanduser()
    candidate = beside / path if beside is not None else path
    if candidate.is_file():
        return candidate
    if candidate.is_dir() and (candidate / RECIPE_FILE).is_file():
        return candidate / RECIPE_FILE
    bundled = bundled_recipes()
    if path_or_name in bundled:
        return bundled[path_or_name]
    kind = "is a folder without recipe.yaml" if candidate.is_dir() else "does not exist"
    raise ConfigError(
        f"recipe '{path_or_name}' {kind}, and no bundled recipe has this name; allowed: a YAML file or one of "
        f"{', '.join(bundled)}.{nearest(path_or_name, bundled)}"
    )


def _read_layers(file: Path, below: tuple[Path, ...]) -> list[Layer]:
    """Layers of a file and of what it extends, the furthest first. ``below`` are the files that led here."""
    file = file.resolve()
    if file in below:
        chain = " -> ".join(f.name for f in (*below, file))
        raise ConfigError(f"{file}: 'extends' goes in a circle: {chain}; a recipe cannot extend itself.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text (byte {error.start}); a recipe is a UTF-8 YAML file.") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}.") from None
    data = parse_yaml(text, source=str(file))
    parent = data.pop("extends", None) if isinstance(data, dict) else None
    layer = _absolute(make_layer(str(file), data), file.parent)
    if parent is None:
        return [layer]
    if not isinstance(parent, str):
        raise ConfigError(f"{file}: extends: found {parent!r}; allowed: one path or name of a bundled recipe.")
    return [*_read_layers(_find_parent(parent, file), (*below, file)), layer]


def _find_parent(parent: str, file: Path) -> Path:
    for name in (parent, f"{parent}.yaml"):
        if (file.parent / name).is_file():
            return file.parent / name
    try:
        return find_recipe(parent, beside=file.parent)
    except ConfigError as error:
        raise ConfigError(f"{file}: extends: {error}") from None


def _absolute(layer: Layer, folder: Path) -> Layer:
    """Make file paths absolute: relative to the file they are written in if they exist there, else to where we run."""
    tree = {name: dict(part) if isinstance(part, dict) else part for name, part in layer.tree.items()}
    for section, key in (("task", "path"), ("task", "eval_path"), ("model", "path"), ("reward", "verifier")):
        part = tree.get(section)
        if not isinstance(part, dict):
            continue
        value = part.get(key)
        if isinstance(value, str) and value:
            part[key] = _absolute_value(section, value, folder)
    return Layer(layer.source, tree)


MODEL_NAMES = ("bundled", "smollm2")
"""Models that come by name: a folder that happens to be called so is './bundled'."""


def _absolute_value(section: str, value: str, folder: Path) -> str:
    if section == "model" and value in MODEL_NAMES:
        return value
    path, colon, function = value.rpartition(":") if section == "reward" else (value, "", "")
    if section == "reward" and not path.endswith(".py"):
        return value
    for base in (folder, Path.cwd()):
        file = base / Path(path).expanduser()
        # 'bundled' and hub ids are not paths; a model path counts as one only when it is there
        if file.is_dir() if section == "model" else file.exists():
            return f"{file.resolve()}{colon}{function}"
    return value if section == "model" else f"{(folder / Path(path).expanduser()).resolve()}{colon}{function}"


def _judge_inert(recipe: Recipe, numbers: Mapping[str, int], where: Any) -> tuple[Inert, ...]:
    """Raise for keys written without effect; return those that a later layer took the effect from.

    Whoever writes a key knows the layers below: writing it without effect is a mistake. Whoever changes the cause later
    (``headrace train demo async.max_lag=0``) need not know what the recipe below set.
    """
    notes, mistakes = [], []
    for inert in inert_keys(recipe):
        layer = numbers.get(inert.key, -1)
        if layer < 0:
            continue
        if layer >= max(numbers.get(cause, -1) for cause in inert.causes):
            mistakes.append(f"{where(inert.key)}: {inert}; leave it out.")
        else:
            notes.append(inert)
    if mistakes:
        raise ConfigError(" ".join(mistakes))
    return tuple(notes)


def _without(tree: Tree, paths: set[str]) -> Tree:
    kept: Tree = {}
    for path, value in leaves(tree):
        if path in paths:
            continue
        *sections, name = path.split(".") if path in all_keys().keys() | section_paths() else [path]
        part = kept
        for section in sections:
            part = part.setdefault(section, {})
        part[name] = value
    return kept


def _name(file: Path) -> str:
    for name, bundled in bundled_recipes().items():
        if bundled.resolve() == file.resolve():
            return name
    return file.parent.name if file.name == RECIPE_FILE else file.stem
