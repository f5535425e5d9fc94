"""What an ablation may leave out or swap: a table from keys of a recipe to what takes their place.

Sections that a recipe may do without (``algorithm.kl``, ``sampling.schedule``, ...) are not listed: each one that is
in use is left out in turn by setting it to null. ``TOGETHER`` holds what has to change with a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.config.conflicts import inert_keys
from headrace.config.keys import all_keys, optional_sections
from headrace.config.load import load
from headrace.config.sections import Recipe
from headrace.errors import ConfigError, nearest
from headrace.studies.variant import Variant, show

BASELINE = "as it is"
"""Label of the unchanged recipe."""


@dataclass(frozen=True, slots=True)
class Part:
    """``values`` take the place of the recipe's own; the first one leaves the part out, where there is such a value."""

    name: str
    key: str
    values: tuple[Any, ...]


PARTS: tuple[Part, ...] = (
    Part("loss", "algorithm.loss", ("reinforce", "ppo_clip", "cispo")),
    Part("dual_clip", "algorithm.loss.dual_clip", (None,)),
    Part("loss_weight", "algorithm.loss_weight", ("token_mean", "sample_mean", "prompt_mean")),
    Part("advantage_mean", "algorithm.advantage.mean", ("none", "batch")),
    Part("advantage_scale", "algorithm.advantage.scale", ("none", "group", "batch")),
    Part("whiten", "algorithm.advantage.whiten", (False,)),
    Part("zero_variance", "algorithm.zero_variance", ("keep", "shrink")),
    Part("truncated", "algorithm.truncated", ("train",)),
    Part("max_lag", "async.max_lag", (0,)),
    Part("max_uses", "async.max_uses", (1,)),
    Part("epochs", "batch.num_epochs", (1,)),
    Part("minibatches", "batch.num_minibatches", (1,)),
    Part("warmup", "optimizer.warmup", (0,)),
    Part("weight_decay", "optimizer.weight_decay", (0.0,)),
)

TOGETHER: Mapping[str, Mapping[str, Any]] = {
    "async.max_lag": {"async.schedule": None, "async.max_uses": 1},
    "algorithm.value": {"algorithm.advantage": {"name": "group_relative", "mean": "batch", "scale": "batch"}},
}
"""Further changes without which a change of the key would contradict the recipe. The batch is the baseline that takes
the critic's place, because it also serves recipes with one completion a prompt."""

SWITCH = "name"  # a section written as one text is picked by this key


@dataclass(frozen=True, slots=True)
class Ablation:
    """The recipe as it is and its variants; ``skipped`` says which parts could not be tried, and why."""

    variants: tuple[Variant, ...]
    skipped: tuple[str, ...] = ()


def part_names(recipe: Recipe) -> tuple[str, ...]:
    """Names of the parts this recipe has, in the order of the table, sections last."""
    return tuple(part.name for part in _parts(recipe))


def ablation(recipe_name: str, fixed: Sequence[str], wanted: Sequence[str] = ()) -> Ablation:
    """Variants that leave out or swap one part each; ``wanted`` are names of parts or labels, all without it.

    A variant that contradicts the rest of the recipe is skipped, or an error where its part was asked for. Raises
    ``ConfigError``.
    """
    recipe = load(recipe_name, fixed).recipe
    parts = {part.name: list(_variants(part, recipe)) for part in _parts(recipe)}
    chosen = _chosen(parts, wanted) if wanted else [variant for found in parts.values() for variant in found]
    kept, skipped = [Variant(BASELINE, {})], []
    for variant in chosen:
        try:
            changed = load(recipe_name, [*fixed, *variant.overrides]).recipe
        except ConfigError as error:
            if wanted:
                raise ConfigError(f"variant '{variant.label}': {error}") from None
            skipped.append(f"{variant.label}: {error}")
            continue
        if changed != recipe:
            kept.append(variant)
    if len(kept) == 1:
        raise ConfigError(f"recipe '{recipe_name}' has no part to leave out or swap.")
    return Ablation(tuple(kept), tuple(skipped))


def _chosen(parts: Mapping[str, Sequence[Variant]], wanted: Sequence[str]) -> list[Variant]:
    chosen: list[Variant] = []
    labels = {variant.label: variant for found in parts.values() for variant in found}
    for word in wanted:
        found = parts.get(word) or [labels[word]] if word in labels or parts.get(word) else []
        if not found:
            known = [name for name, variants in parts.items() if variants]
            raise ConfigError(
                f"--parts: '{word}' is no part of this recipe; allowed: {', '.join(known)}, or one variant such as "
                f"'{next(iter(labels), '')}'.{nearest(word, [*known, *labels])}"
            )
        chosen += [variant for variant in found if variant not in chosen]
    return chosen


def _parts(recipe: Recipe) -> Iterator[Part]:
    """The rows of the table whose key this recipe has, then its optional sections that are in use."""
    tree = recipe.model_dump(mode="json", by_alias=True)
    yield from (part for part in PARTS if _has(tree, part.key))
    idle = {inert.key for inert in inert_keys(recipe)}
    for section in sorted(optional_sections()):
        keys = [key for key in all_keys() if key.startswith(f"{section}.")]
        if _has(tree, section) and _get(tree, section) is not None and not idle.issuperset(keys):
            yield Part(_name(section), section, (None,))


def _name(section: str) -> str:
    """The last word of a section, in full where another one ends alike (``sampling.schedule``)."""
    last = section.rpartition(".")[2]
    alike = [other for other in optional_sections() if other.rpartition(".")[2] == last]
    return last if len(alike) == 1 else section


def _variants(part: Part, recipe: Recipe) -> Iterator[Variant]:
    tree = recipe.model_dump(mode="json", by_alias=True)
    now = _get(tree, part.key)
    now = now[SWITCH] if isinstance(now, dict) and isinstance(part.values[0], str) else now
    for value in part.values:
        if value == now:
            continue
        together = {key: what for key, what in TOGETHER.get(part.key, {}).items() if _has(tree, key)}
        label = f"no {part.name}" if value is None else f"{part.name}={show(value)}"
        yield Variant(label, {**together, part.key: value})


def _has(tree: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.rpartition(".")
    inner = _get(tree, section) if section else tree
    return isinstance(inner, Mapping) and name in inner


def _get(tree: Any, key: str) -> Any:
    for name in key.split("."):
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree
