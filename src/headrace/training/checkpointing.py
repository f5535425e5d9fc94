"""The trainer's part of a checkpoint: ``model/`` in Hugging Face format, ``optimizer.pt``, ``trainer.json``; with a
critic also ``value.safetensors`` and ``value_optimizer.pt``."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headrace.errors import DataError
from headrace.models.loading import load_causal_lm

MODEL_FOLDER = "model"
OPTIMIZER_FILE = "optimizer.pt"
STATE_FILE = "trainer.json"
VALUE_FILE = "value.safetensors"
VALUE_OPTIMIZER_FILE = "value_optimizer.pt"

# What a tokenizer is made of: with these beside the weights a checkpoint's model folder is usable by itself.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerState:
    """Counters of the trainer, and what its objective remembers. ``version`` = steps completed."""

    version: int
    num_skipped_updates: int
    adaptive: dict[str, float | None] = field(default_factory=dict)


def save_trainer(folder: str, *, model: Any, source: str, optimizer: dict[str, Any], state: TrainerState) -> None:
    """Write all three parts into the existing ``folder``; ``source`` is where the tokenizer's files are copied from."""
    root = Path(folder)
    model.save_pretrained(root / MODEL_FOLDER)
    for name in _TOKENIZER_FILES:
        if (Path(source) / name).is_file():
            shutil.copyfile(Path(source) / name, root / MODEL_FOLDER / name)
    torch.save(optimizer, root / OPTIMIZER_FILE)
    (root / STATE_FILE).write_text(json.dumps(asdict(state)) + "\n", encoding="utf-8")


def load_trainer(folder: str, *, model: Any) -> tuple[dict[str, Any], TrainerState]:
    """Copy the saved weights into ``model`` and return the optimiser's state and the counters.

    Raises ``DataError`` naming the file that is missing, unreadable or of another model.
    """
    root = Path(folder)
    try:
        counters = json.loads((root / STATE_FILE).read_text(encoding="utf-8"))
        optimizer = torch.load(root / OPTIMIZER_FILE, weights_only=True, map_location="cpu")
        state = TrainerState(**counters)
    except (OSError, ValueError, TypeError, RuntimeError, pickle.UnpicklingError) as error:
        raise DataError(f"checkpoint {folder!r} has no usable trainer part: {_first_line(error)}") from error
    dtype = str(model.dtype).removeprefix("torch.")
    saved = load_causal_lm(str(root / MODEL_FOLDER), dtype=dtype)
    _copy_weights(dict(saved.named_parameters()), model, folder)
    return optimizer, state


def save_value(folder: str, *, model: nn.Module, optimizer: dict[str, Any]) -> None:
    """Write a value model and its optimiser's state into the existing ``folder``."""
    weights = {name: p.detach().contiguous() for name, p in model.named_parameters()}
    save_file(weights, Path(folder) / VALUE_FILE)
    torch.save(optimizer, Path(folder) / VALUE_OPTIMIZER_FILE)


def load_value(folder: str, *, model: nn.Module) -> dict[str, Any]:
    """Copy the saved weights into the value model and return its optimiser's state.

    Raises ``DataError`` naming the file that is missing, unreadable or of another model.
    """
    try:
        weights = load_file(Path(folder) / VALUE_FILE)
        optimizer = torch.load(Path(folder) / VALUE_OPTIMIZER_FILE, weights_only=True, map_location="cpu")
    except (OSError, ValueError, RuntimeError, SafetensorError, pickle.UnpicklingError) as error:
        raise DataError(f"checkpoint {folder!r} has no usable value model: {_first_line(error)}") from error
    _copy_weights(weights, model, folder)
    found: dict[str, Any] = optimizer
    return found


@torch.no_grad()
def _copy_weights(found: Mapping[str, Tensor], model: nn.Module, folder: str) -> None:
    for name, parameter in model.named_parameters():
        if name not in found or found[name].shape != parameter.shape:
            raise DataError(f"checkpoint {folder!r} holds another model: {name} is missing or of another shape")
        parameter.copy_(found[name])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
