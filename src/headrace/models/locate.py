"""From what ``model.path`` says to a folder of model files, and what its headers tell without loading it (no torch)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from headrace.errors import DataError, nearest

BUNDLED = Path(__file__).resolve().parents[1] / "assets" / "base-arithmetic"

_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length")
_HUB_FILES = ("*.json", "*.jinja", "*.safetensors", "*.model", "*.txt")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model folder and its figures. ``eos_token_ids`` are all end tokens its files name, sorted."""

    folder: Path
    context_length: int  # tokens
    vocab_size: int  # rows of the embedding
    architecture: str  # transformers' class, such as "Qwen3ForCausalLM"
    eos_token_ids: tuple[int, ...]
    num_parameters_estimate: int  # tied weights counted once
    nbytes: int  # of the weight files


def resolve_model(path: str) -> ModelFiles:
    """Find the model: ``bundled``, ``smollm2``, a folder, or a hub id (downloaded, or from the hub's cache).

    Raises ``DataError`` that says what is missing from the folder, or why the hub id cannot be had.
    """
    return read_model_folder(locate_folder(path))


def locate_folder(path: str) -> Path:
    """The folder ``model.path`` stands for; 'smollm2' is converted and a hub id downloaded when first asked for."""
    if path == "bundled":
        return BUNDLED
    if path == "smollm2":
        from headrace.models.smollm2 import ensure_folder

        return ensure_folder()
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.is_file():
        raise DataError(
            f"model.path '{path}' is a file; allowed: a Hugging Face model folder (with config.json), or a hub id."
        )
    if path.count("/") != 1 or path.startswith((".", "/", "~")):
        hint = nearest(path, ("bundled", "smollm2"))
        raise DataError(
            f"model.path '{path}': there is no such folder; allowed: 'bundled', 'smollm2', a Hugging Face model "
            f"folder, or a hub id such as 'Qwen/Qwen3-0.6B'.{hint}"
        )
    return _download(path)


def read_model_folder(folder: Path) -> ModelFiles:
    """Figures of a model folder. Raises ``DataError`` naming every file that is missing or cannot be read."""
    weights = _weight_files(folder)
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    missing += [] if weights else ["weights (model.safetensors, or shards with an index)"]
    if missing:
        found = ", ".join(sorted(f.name for f in folder.iterdir())[:8]) if folder.is_dir() else "no folder"
        raise DataError(
            f"model folder {folder} is not a Hugging Face model: it lacks {', '.join(missing)}; found: "
            f"{found or 'nothing'}. Allowed is a folder as save_pretrained writes it, tokenizer included."
        )
    config = _read_json(folder / "config.json")
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    num_parameters, nbytes = _measure(weights)
    return ModelFiles(
        folder=folder,
        context_length=_first_int(folder, text, _CONTEXT_KEYS, "a context length"),
        vocab_size=_first_int(folder, text, ("vocab_size",), "vocab_size"),
        architecture=str((config.get("architectures") or [config.get("model_type", "unknown")])[0]),
        eos_token_ids=eos_token_ids(folder),
        num_parameters_estimate=num_parameters,
        nbytes=nbytes,
    )


def eos_token_ids(folder: Path) -> tuple[int, ...]:
    """Every end token the folder names: generation config, model config and tokenizer config together, sorted.

    A chat model often has two (end of text, end of turn), and no single file names both.
    """
    ids: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        file = folder / name
        if file.is_file():
            config = _read_json(file)
            text = config.get("text_config")
            for part in (config, text if isinstance(text, dict) else {}):
                found = part.get("eos_token_id")
                ids.update([found] if isinstance(found, int) else found or [])
    tokenizer_config = folder / "tokenizer_config.json"
    if tokenizer_config.is_file():
        token = token_text(_read_json(tokenizer_config).get("eos_token"))
        ids.update(_ids_of(folder, [token] if token else []))
    return tuple(sorted(ids))


def token_text(entry: Any) -> str | None:
    """A special token's text; files write it bare or as a mapping with ``content``."""
    found = entry.get("content") if isinstance(entry, dict) else entry
    return found if isinstance(found, str) else None


def _ids_of(folder: Path, tokens: Iterable[str]) -> list[int]:
    """Ids of added tokens; the file can be large, but no tokenizer library is needed."""
    tokenizer = _read_json(folder / "tokenizer.json")
    added = {entry["content"]: entry["id"] for entry in tokenizer.get("added_tokens", [])}
    vocab = tokenizer.get("model", {}).get("vocab", {})
    lookup = {**vocab, **added} if isinstance(vocab, dict) else added
    return [lookup[token] for token in tokens if token in lookup]


def _weight_files(folder: Path) -> list[Path]:
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        if files := sorted(f for f in folder.glob(pattern) if not f.name.startswith("adapter")):
            return files
    return []


def _measure(files: list[Path]) -> tuple[int, int]:
    """(parameters, bytes) of weight files; for other formats than safetensors two bytes a parameter are assumed."""
    nbytes = sum(f.stat().st_size for f in files)
    if files[0].suffix != ".safetensors":
        return nbytes // 2, nbytes
    return sum(prod(shape) for f in files for shape in _shapes(f)), nbytes


def _shapes(file: Path) -> list[list[int]]:
    try:
        with file.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            if size > 100_000_000:
                raise ValueError("header too long")
            header = json.loads(stream.read(size))
        return [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"weights {file} are not a safetensors file ({error}); a file of a few hundred bytes is often a Git LFS "
            "pointer whose contents were not fetched."
        ) from None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as JSON: {error}.") from None
    if not isinstance(data, dict):
        raise DataError(f"{file} holds {type(data).__name__}; a mapping is meant.")
    return data


def _first_int(folder: Path, config: Any, keys: tuple[str, ...], meaning: str) -> int:
    for key in keys:
        if isinstance(config.get(key), int):
            return int(config[key])
    raise DataError(f"{folder / 'config.json'} does not give {meaning} (looked for {', '.join(keys)}).")


def _download(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, allow_patterns=list(_HUB_FILES)))
    except Exception as error:  # the hub client has a dozen kinds, from HTTP down to the resolver
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"model.path '{hub_id}': there is no such folder here, and the Hugging Face hub did not give it: {reason} "
            "Without a network, use 'bundled' or a folder."
        ) from None
