"""Any Hugging Face causal language model behind the interface the embedded engine decodes through."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headrace.errors import DataError, PublicationError
from headrace.models.fast_forward import CacheView, chosen_logprob, head_logits

if TYPE_CHECKING:
    from torch import Tensor


class Float32Head(nn.Module):
    """The model's output head with the product in float32; shares the weight, so loading reaches it."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        self.weight = head.weight
        self.bias = head.bias

    def forward(self, hidden: Tensor) -> Tensor:
        logits = head_logits(hidden.reshape(-1, hidden.shape[-1]), self.weight)
        if self.bias is not None:
            logits = logits + self.bias.float()
        return logits.view(*hidden.shape[:-1], -1)


class _Adapter:
    """Stands in for a transformers cache: planes 2i and 2i+1 are keys and values of layer i.

    Without a view it only collects what a prefill computes. The masks are passed ready-made, so lengths are not asked
    for except by code that wants to know whether anything was seen.
    """

    is_compileable = False

    def __init__(self, view: CacheView | None) -> None:
        self._view = view
        self.collected: list[Tensor] = []

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if self._view is None:
            self.collected += [key, value]
            return key, value
        held = (self._view.append(2 * layer_idx + i, new[:, :, 0]) for i, new in enumerate((key, value)))
        return next(held), next(held)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self._view is None else self._view.width - 1

    def get_max_length(self, layer_idx: int = 0) -> int:
        return -1


class ModuleDecoder:
    """Calls the model itself, one token a row, with an additive 4D mask and explicit positions.

    Raises ``DataError`` for models whose memory of a sequence is not keys and values alone.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.eval().requires_grad_(False)
        self._check_layers()
        # transformers 5.24 renamed the argument; the old name goes away in 5.40.
        parameters = inspect.signature(type(model).forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self.dtype: torch.dtype = model.get_input_embeddings().weight.dtype
        self.device: torch.device = model.get_input_embeddings().weight.device
        self._tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
        self._parameters = dict(model.named_parameters(remove_duplicate=False))
        self._names = {name for name, _ in model.named_parameters()}
        model.set_output_embeddings(Float32Head(model.get_output_embeddings()))

    def parameter_names(self) -> set[str]:
        """Names a full update must carry; a tied head is named once."""
        return self._names

    def load(self, name: str, value: Tensor) -> None:
        """Overwrite one parameter, named as in the Hugging Face model, with a tensor of its shape."""
        target = self._parameters.get(name)
        if target is None:
            raise PublicationError(f"weights {name!r} have no place in this model")
        if value.shape != target.shape:
            raise PublicationError(f"weights {name!r} have shape {tuple(value.shape)}, not {tuple(target.shape)}")
        target.copy_(value)

    def copy_from(self, other: ModuleDecoder) -> None:
        """Take over the weights of a decoder of the same model."""
        for name in self._names:
            self._parameters[name].copy_(other._parameters[name])

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleDecoder:
        twin = copy.copy(self)
        twin._model = copy.deepcopy(self._model, memo)
        twin._parameters = dict(twin._model.named_parameters(remove_duplicate=False))
        return twin

    def decode(self, tokens: Tensor, positions: Tensor, view: CacheView) -> Tensor:
        """One token a row: int64 tokens and positions [n] -> float32 logits [n, V]; keys and values are appended."""
        return self._run(tokens[:, None], positions[:, None], self._masks(positions, view), _Adapter(view))[:, 0]

    def prefill(self, tokens: Tensor) -> list[Tensor]:
        """Keys and values of int64 tokens [B, P] at positions 0..: planes [B, heads, P, D], two a layer."""
        cache = _Adapter(None)
        self._whole(tokens, cache, 1)
        return cache.collected

    def score(self, tokens: Tensor) -> Tensor:
        """float32 log-probability [B, L-1] of tokens 1.. of int64 [B, L] given what stands before, temperature 1."""
        logits = self._whole(tokens, _Adapter(None), 0)[:, :-1]
        flat = chosen_logprob(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        return flat.view(len(tokens), -1)

    def _whole(self, tokens: Tensor, cache: _Adapter, keep: int) -> Tensor:
        length = tokens.shape[1]
        place = torch.arange(length, device=tokens.device)
        masks = self._dressed(place[None, None, :, None], length)
        return self._run(tokens, place.expand(len(tokens), -1), masks, cache, logits_to_keep=keep)

    def _run(self, tokens: Tensor, positions: Tensor, masks: Any, cache: _Adapter, **more: Any) -> Tensor:
        arguments = {self._cache_argument: cache, "use_cache": True, **more}
        return self._model(input_ids=tokens, position_ids=positions, attention_mask=masks, **arguments).logits.float()

    def _masks(self, positions: Tensor, view: CacheView) -> Any:
        return view.mask if self._window is None else self._dressed(positions[:, None, None, None], view.width)

    def _dressed(self, position: Tensor, width: int) -> Any:
        """Additive mask(s) for queries at ``position`` [.., .., Q, 1] over ``width`` keys, by layer type if asked."""
        key = torch.arange(width, device=position.device)
        full = self._additive(key <= position)
        if self._window is None:
            return full
        local = self._additive((key <= position) & (key > position - self._window))
        return {"full_attention": full, "sliding_attention": local} if self._typed else local

    def _additive(self, seen: Tensor) -> Tensor:
        return torch.where(seen, 0.0, float("-inf")).to(self.dtype)

    def _check_layers(self) -> None:
        config = self._model.config
        types = set(getattr(config, "layer_types", None) or [])
        unknown = types - {"full_attention", "sliding_attention"}
        if unknown or getattr(self._model, "_is_stateful", False):
            what = ", ".join(sorted(unknown)) or "recurrent state"
            raise DataError(f"model type {config.model_type!r} has {what}; the embedded engine serves attention only")
        self._typed = bool(types)
        window = getattr(config, "sliding_window", None)
        self._window: int | None = window if window and types != {"full_attention"} else None
