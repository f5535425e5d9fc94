"""The trainer's part of a checkpoint: ``model/`` in Hugging Face format, ``optimizer.pt``, ``trainer.json``."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headrace.errors import DataError
from headrace.models.loading import load_causal_lm

MODEL_FOLDER = "model"
OPTIMIZER_FILE = "optimizer.pt"
STATE_FILE = "trainer.json"

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
    """Counters of the trainer. ``version`` = steps completed."""

    version: int
    num_skipped_updates: int


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
    _copy_weights(load_causal_lm(str(root / MODEL_FOLDER), dtype=dtype), model, folder)
    return optimizer, state


@torch.no_grad()
def _copy_weights(saved: Any, model: Any, folder: str) -> None:
    found = dict(saved.named_parameters())
    for name, parameter in model.named_parameters():
        if name not in found or found[name].shape != parameter.shape:
            raise DataError(f"checkpoint {folder!r} holds another model: {name} is missing or of another shape")
        parameter.copy_(found[name])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
