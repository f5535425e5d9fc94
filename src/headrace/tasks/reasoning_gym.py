"""Rows of reasoning-gym generators (an extra): ``task.name: reasoning_gym/chain_sum``, parameters in "
"``task.params``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError, DataError, nearest

TRAIN_ROWS = 4096
"""Rows made for training unless ``task.params`` says ``size``."""

_HELD_OUT_SEED = 1_000_003  # far from small run seeds; rows that still coincide are taken out of training


def generate_rows(name: str, params: Mapping[str, Any], *, num_rows: int, seed: int) -> list[dict[str, Any]]:
    """``num_rows`` rows with ``prompt``, ``answer`` and ``metadata``, a pure function of the arguments.

    Raises ``ConfigError`` for an unknown generator or parameter, ``DataError`` when the package is missing.
    """
    dataset = make_dataset(name, {**params, "size": num_rows, "seed": seed})
    rows = []
    for index in range(num_rows):
        entry = dataset[index]
        answer = entry["answer"]
        rows.append(
            {
                "prompt": entry["question"],
                "answer": "" if answer is None else str(answer),
                "metadata": dict(entry.get("metadata") or {}),
            }
        )
    return rows


def make_rows(
    name: str, params: Mapping[str, Any], *, num_held_out: int, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(training rows, held-out rows) without a question in common. Held-out rows are the same for every ``seed``."""
    options = {key: value for key, value in params.items() if key not in ("size", "seed")}
    num_train = params.get("size", TRAIN_ROWS)
    if not isinstance(num_train, int) or isinstance(num_train, bool) or num_train < 1:
        raise ConfigError(f"task.params.size: found {num_train!r}; allowed: a whole number >= 1.")
    drawn = generate_rows(name, options, num_rows=2 * num_held_out, seed=_HELD_OUT_SEED)  # small generators repeat
    held_out = list({row["prompt"]: row for row in drawn}.values())[:num_held_out]
    taken = {row["prompt"] for row in held_out}
    train = [r for r in generate_rows(name, options, num_rows=num_train, seed=seed) if r["prompt"] not in taken]
    if not train:
        raise DataError(
            f"task 'reasoning_gym/{name}' with these task.params has so few problems that all are held out; lower "
            "eval.num_prompts or choose wider parameters."
        )
    return train, held_out


def make_dataset(name: str, config: Mapping[str, Any]) -> Any:
    """reasoning-gym's own data set object."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise DataError(
            f"task.name 'reasoning_gym/{name}' needs the package reasoning-gym ({error}): pip install "
            "'headrace[reasoning-gym]'."
        ) from None
    if name not in DATASETS:
        raise ConfigError(
            f"task.name 'reasoning_gym/{name}': there is no generator of this name (reasoning-gym has {len(DATASETS)})."
            f"{nearest(name, DATASETS)}"
        )
    try:
        return reasoning_gym.create_dataset(name, **config)
    except (TypeError, AssertionError, ValueError) as error:
        known = ", ".join(
            f for f in getattr(DATASETS[name][1], "__dataclass_fields__", {}) if f not in ("size", "seed")
        )
        raise ConfigError(f"task.params of 'reasoning_gym/{name}': {error}; its parameters are: {known}.") from None
