"""From variants and seeds to the runs of a study: every recipe is loaded and checked before the first one starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.config.load import load
from headrace.config.sections import Recipe
from headrace.errors import ConfigError
from headrace.studies.variant import Variant


@dataclass(frozen=True, slots=True)
class Job:
    """One run that a study wants. ``name`` is the stem of its files: recipe, log and run folder."""

    variant: Variant
    seed: int
    recipe: Recipe

    @property
    def name(self) -> str:
        return f"{self.variant.slug}-seed{self.seed}"


def parse_seeds(text: str) -> tuple[int, ...]:
    """``0,1,2`` as numbers. Raises ``ConfigError`` for anything else, and for a seed written twice."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise ConfigError(f"--seeds '{text}': allowed are whole numbers >= 0 between commas, such as 0,1,2.")
    seeds = tuple(int(word) for word in words)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds '{text}': a seed is written twice.")
    return seeds


def plan(recipe: str, fixed: Sequence[str], variants: Sequence[Variant], seeds: Sequence[int]) -> list[Job]:
    """The runs, all variants of the first seed first, so that an unfinished study still compares like with like.

    ``fixed`` are overrides of every variant. Raises one ``ConfigError`` that says what is wrong with each variant, and
    for two variants that come to the same recipe.
    """
    seeds_elsewhere = [v.label for v in variants if "run.seed" in v.changes]
    if seeds_elsewhere or any(text.partition("=")[0].strip() == "run.seed" for text in fixed):
        raise ConfigError("run.seed is set by --seeds in a study; leave it out.")
    load(recipe, fixed)  # a mistake in what all have in common is told once, not for every variant
    found, mistakes = _load_all(recipe, fixed, variants)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return [Job(variant, seed, _seeded(loaded, seed)) for seed in seeds for variant, loaded in found]


def _load_all(
    recipe: str, fixed: Sequence[str], variants: Sequence[Variant]
) -> tuple[list[tuple[Variant, Recipe]], list[str]]:
    found: list[tuple[Variant, Recipe]] = []
    mistakes: list[str] = []
    for variant in variants:
        try:
            loaded = load(recipe, [*fixed, *variant.overrides]).recipe
        except ConfigError as error:
            mistakes.append(f"variant '{variant.label}': {error}")
            continue
        twin = next((other.label for other, same in found if same == loaded), None)
        if twin is not None:
            mistakes.append(f"variant '{variant.label}': the same recipe as variant '{twin}'; leave one out.")
        found.append((variant, loaded))
    return found, mistakes


def _seeded(recipe: Recipe, seed: int) -> Recipe:
    return recipe.model_copy(update={"run": recipe.run.model_copy(update={"seed": seed})})
