"""``headrace recipes``: the bundled recipes and what each is for."""

from __future__ import annotations

from pathlib import Path

from headrace.config.load import bundled_recipes, recipe_folder


def run_recipes() -> int:
    """Print name and purpose of every bundled recipe."""
    recipes = bundled_recipes()
    width = max(map(len, recipes), default=0)
    for name, file in recipes.items():
        print(f"{name:<{width}}  {purpose(file)}")
    print(f"\nThey are in {recipe_folder()}; start your own with 'extends: NAME'.")
    return 0


def purpose(file: Path) -> str:
    """The first comment line of a recipe, which says what it is for."""
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""
