"""The frozen model that a KL penalty refers to."""

from __future__ import annotations

from headrace.config.sections import Recipe
from headrace.errors import ConfigError
from headrace.models.loading import load_causal_lm
from headrace.training.scoring import Scorer


def frozen_reference(folder: str, recipe: Recipe) -> Scorer:
    """``algorithm.kl.reference``, or the weights in ``folder``, which the run started from; in the policy's dtype.

    Raises ``ConfigError`` when its vocabulary is another one than the policy's.
    """
    kl = recipe.algorithm.kl
    where = kl.reference if kl is not None and kl.reference is not None else folder
    model = load_causal_lm(where, dtype=recipe.model.dtype, device=recipe.trainer.device).eval().requires_grad_(False)
    if where != folder:
        own = load_causal_lm(folder, dtype=recipe.model.dtype).config.get_text_config().vocab_size
        theirs = model.config.get_text_config().vocab_size
        if own != theirs:
            raise ConfigError(
                f"algorithm.kl.reference {where!r} has a vocabulary of {theirs} tokens, the policy's has {own}; "
                "allowed: a model with the same tokenizer."
            )
    return Scorer(model, recipe.trainer.device)
