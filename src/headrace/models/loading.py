"""Loading a Hugging Face causal language model from a local folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_causal_lm(
    folder: str, *, dtype: str = "float32", device: str = "cpu", attention: str = "sdpa"
) -> PreTrainedModel:
    """Load weights, config and nothing else; ``dtype`` is torch's name ('float32', 'bfloat16').

    Raises ``DataError`` naming the folder when it does not hold a causal language model.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype), attn_implementation=attention, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"model folder {folder!r} does not load as a causal language model: {error}") from error
    placed: PreTrainedModel = torch.nn.Module.to(model, torch.device(device))
    return placed
