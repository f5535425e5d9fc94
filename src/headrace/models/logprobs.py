"""The one place where tokens are shifted against hidden states: what comes before a token predicts it.

That is the column before it, or the last one of the prompt block that it continues. Everything outside, records and
packed batches alike, has index t describe token t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headrace.errors import DataError, RecordError
from headrace.models import train_forward
from headrace.models.lm_head import HeadScores, head_logprobs
from headrace.records import FloatArray, IntArray, MicroBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTensors:
    """Rows as the model takes them. ``source`` and ``target`` hold the shift: flat positions whose hidden state
    predicts, and the token ids predicted, one entry for each trainable token in row-major order."""

    token_ids: Tensor  # [R, W] int64
    position_ids: Tensor  # [R, W] int64
    segment: Tensor  # [R, W] int64, -1 on padding
    prefix: Tensor  # [R, W] int64, a second segment that the token sees
    source: Tensor  # [T] int64, into R * W
    target: Tensor  # [T] int64


def row_tensors(micro: MicroBatch, device: str | torch.device = "cpu") -> RowTensors:
    """Move a micro-batch to the model's device and pair every trainable token with the one that predicts it.

    Raises ``RecordError`` when a trainable token opens its rollout: nothing before it in the row is of the same rollout
    or of the prompt block it continues.
    """
    flat = np.flatnonzero(micro.trainable)
    previous = micro.previous.reshape(-1)[flat]
    source = flat - flat % micro.trainable.shape[1] + previous
    segment, prefix = micro.segment.reshape(-1), micro.prefix.reshape(-1)
    seen = (segment[source] == segment[flat]) | (segment[source] == prefix[flat])
    if not (seen & (previous >= 0) & (source < flat)).all():
        raise RecordError("a trainable token is the first of its rollout: nothing of the same rollout predicts it")
    return RowTensors(
        token_ids=_long(micro.token_ids, device),
        position_ids=_long(micro.position_ids, device),
        segment=_long(micro.segment, device),
        prefix=_long(micro.prefix, device),
        source=_long(source, device),
        target=_long(micro.token_ids.reshape(-1)[flat], device),
    )


def trainable_logprobs(model: PreTrainedModel, rows: RowTensors, *, temperature: float) -> HeadScores:
    """Log-probability (with grad) and entropy of every trainable token, flat [T] in row-major order.

    Only hidden states that predict a trainable token reach the head.
    """
    states = predicting_states(model, rows)
    return head_logprobs(states, head_weight(model), rows.target, temperature=temperature)


def predicting_states(model: PreTrainedModel, rows: RowTensors) -> Tensor:
    """Last hidden states [T, H] at ``rows.source``; no token sees another rollout.

    Small float32 Qwen3 and Llama models on narrow rows take the lean forward, everything else the model's own.
    """
    mask = block_causal_mask(rows.segment, rows.prefix, model.dtype)
    if train_forward.supports(model) and rows.token_ids.shape[1] <= train_forward.MAX_WIDTH and not model.training:
        return train_forward.lean_states(model, rows.token_ids, rows.position_ids, mask, rows.source)
    output = model.base_model(
        input_ids=rows.token_ids, attention_mask=mask, position_ids=rows.position_ids, use_cache=False
    )
    hidden: Tensor = output.last_hidden_state
    return hidden.reshape(-1, hidden.shape[-1])[rows.source]


def block_causal_mask(segment: Tensor, prefix: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask [R, 1, W, W]: 0 where a query may look (not later, and of its own segment or the block it
    continues), the dtype's minimum elsewhere.

    Padding counts as a segment of its own, so that no row of the softmax is empty.
    """
    width = segment.shape[1]
    causal = torch.ones(width, width, dtype=torch.bool, device=segment.device).tril()
    key = segment[:, None, :]
    visible = ((segment[:, :, None] == key) | (prefix[:, :, None] == key)) & causal
    blocked = torch.tensor(torch.finfo(dtype).min, dtype=dtype, device=segment.device)
    return torch.where(visible, torch.zeros((), dtype=dtype, device=segment.device), blocked)[:, None]


def head_weight(model: PreTrainedModel) -> Tensor:
    """The output projection [V, H]; the embedding itself when the model ties them.

    Raises ``DataError`` for a model whose logits are more than hidden @ weight.T.
    """
    head: Any = model.get_output_embeddings()
    if head is None or getattr(head, "bias", None) is not None:
        raise DataError(f"{type(model).__name__} has no plain output projection without bias")
    config: Any = model.config.get_text_config()
    for key in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, key, None) not in (None, 1.0, 1):
            raise DataError(f"{type(model).__name__} rescales its logits ({key}), which the training head does not do")
    weight: Tensor = head.weight
    return weight


def score_sequences(
    model: PreTrainedModel, sequences: Sequence[IntArray], *, temperature: float = 1.0
) -> list[FloatArray]:
    """Log-probability [l - 1] of tokens 1.. of every sequence given what stands before. No gradient."""
    width = max(len(ids) for ids in sequences)
    shape = (len(sequences), width)
    token_ids, segment = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
    for row, ids in enumerate(sequences):
        token_ids[row, : len(ids)], segment[row, : len(ids)] = ids, row
    inside = segment >= 0
    flat = np.flatnonzero(inside & (np.arange(width) > 0))
    device = model.device
    numbers = _long(segment, device)
    rows = RowTensors(
        token_ids=_long(token_ids, device),
        position_ids=_long(np.where(inside, np.arange(width), 0), device),
        segment=numbers,
        prefix=numbers,
        source=_long(flat - 1, device),
        target=_long(token_ids.reshape(-1)[flat], device),
    )
    with torch.no_grad():
        scores = trainable_logprobs(model, rows, temperature=temperature).logprob.float().cpu().numpy()
    return [part.astype(np.float32) for part in np.split(scores, np.cumsum([len(ids) - 1 for ids in sequences])[:-1])]


def _long(values: np.ndarray, device: str | torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(device)
