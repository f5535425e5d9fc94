"""Turning the working weights into a ``WeightUpdate``: one flat buffer, and probe scores to prove its arrival."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from headrace.models.logprobs import score_sequences
from headrace.records import ByteArray, IntArray, ProbeScores, TensorSpec

ALIGNMENT = 64
NUM_PROBES = 2
PROBE_TOKENS = 16
_PROBE_SEED = 20_513


def plan_buffer(named: Iterable[tuple[str, Tensor]]) -> tuple[TensorSpec, ...]:
    """Offsets of every tensor in a flat buffer, each aligned to 64 bytes. Tied tensors appear once."""
    specs: list[TensorSpec] = []
    offset = 0
    for name, tensor in named:
        nbytes = tensor.numel() * tensor.element_size()
        dtype = str(tensor.dtype).removeprefix("torch.")
        specs.append(TensorSpec(name=name, dtype=dtype, shape=tuple(tensor.shape), offset=offset, nbytes=nbytes))
        offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return tuple(specs)


def fill_buffer(named: Iterable[tuple[str, Tensor]], specs: tuple[TensorSpec, ...]) -> ByteArray:
    """A fresh buffer holding every tensor's bytes where its spec says."""
    size = max((-(-(s.offset + s.nbytes) // ALIGNMENT) * ALIGNMENT for s in specs), default=0)
    buffer = np.zeros(size, dtype=np.uint8)
    for spec, (_, tensor) in zip(specs, named, strict=True):
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
        buffer[spec.offset : spec.offset + spec.nbytes] = raw
    return buffer


def probe_sequences(vocab_size: int) -> tuple[IntArray, ...]:
    """Two fixed sequences of 16 token ids, the same in every run of a vocabulary."""
    rng = np.random.default_rng(_PROBE_SEED)
    return tuple(rng.integers(vocab_size, size=PROBE_TOKENS).astype(np.int32) for _ in range(NUM_PROBES))


def probe_scores(model: torch.nn.Module, sequences: tuple[IntArray, ...]) -> ProbeScores:
    """Score the probes on the model's working weights, which are the published ones to the bit."""
    return ProbeScores(token_ids=sequences, logprob=tuple(score_sequences(model, sequences)))  # type: ignore[arg-type]
