"""Log-probabilities and entropy from hidden states without ever holding [tokens, vocabulary].

The head weight enters as published: rounded to bf16 if it is published so, the same tensor as a tied embedding. The
product and the log-softmax are float32 (TF32 and autocast off), in tiles of vocabulary x tokens; a bf16 weight is
widened a tile at a time. The backward pass recomputes the logits of a tile from hidden states and the saved
normaliser: four products in place of three, for a memory that does not grow with the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

VOCAB_TILE = 4096
TILE_ELEMENTS = 512 * VOCAB_TILE


class HeadScores(NamedTuple):
    """``logprob`` [T] of the targets, with grad; ``entropy`` [T] of the distribution in nats, with grad on demand."""

    logprob: Tensor
    entropy: Tensor


def head_logprobs(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    entropy_grad: bool = False,
) -> HeadScores:
    """log softmax(hidden @ weight.T / temperature)[target] and its entropy, float32 (float64 for float64 inputs).

    ``hidden`` [T, H] float32 or bfloat16, ``weight`` [V, H] in the published dtype, ``target`` [T] int64; one
    ``temperature``, or one a token [T]. Gradients come back in the dtypes of ``hidden`` and ``weight``; the entropy
    only has one with ``entropy_grad``. Logits that are -inf have probability 0 and no share in the entropy. Raises
    ``ValueError`` for a temperature that is not above 0.
    """
    if not (bool((temperature > 0).all()) if isinstance(temperature, Tensor) else temperature > 0):
        raise ValueError(f"temperature {temperature} must be above 0")
    logprob, entropy = _TiledHead.apply(hidden, weight, target, 1.0 / temperature, entropy_grad)
    return HeadScores(logprob, entropy)


class _TiledHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, scale: float | Tensor, entropy_grad: bool
    ) -> tuple[Tensor, Tensor]:
        with _exact_products(hidden.device.type):
            states = _scaled(hidden, scale)
            logprob, entropy, normaliser = _scan(states, weight, target)
        ctx.save_for_backward(hidden, weight, target, normaliser, entropy)
        ctx.scale = scale
        ctx.entropy_grad = entropy_grad
        if not entropy_grad:
            ctx.mark_non_differentiable(entropy)
        return logprob, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        hidden, weight, target, normaliser, entropy = ctx.saved_tensors
        bonus = (grads[1], entropy) if ctx.entropy_grad else None
        want_hidden, want_weight = ctx.needs_input_grad[:2]
        with _exact_products(hidden.device.type):
            states = _scaled(hidden, ctx.scale)
            grad_states = torch.zeros_like(states) if want_hidden else None
            grad_weight = _room_for(weight, len(target)) if want_weight else None
            _rescan(states, weight, target, normaliser, grads[0], bonus, grad_states, grad_weight)
            if grad_states is not None:
                grad_states = grad_states.mul_(_column(ctx.scale)).to(hidden.dtype)
        return grad_states, grad_weight, None, None, None


def _scan(states: Tensor, weight: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One pass over the vocabulary: logprob, entropy and log-normaliser, each [T], by running maximum and sums."""
    tokens = states.shape[0]
    peak = states.new_full((tokens,), -torch.inf)
    mass = states.new_zeros(tokens)  # sum of exp(z - peak)
    moment = states.new_zeros(tokens)  # sum of (z - peak) exp(z - peak)
    picked = states.new_zeros(tokens)
    for start, tile, rows, logits, spare in _tiles(states, weight, buffers=2):
        local = target[rows] - start
        inside = (local >= 0) & (local < tile.shape[0])
        found = logits.gather(1, local.clamp(0, tile.shape[0] - 1)[:, None])[:, 0]
        picked[rows] = torch.where(inside, found, picked[rows])
        before = peak[rows]
        after = torch.maximum(before, logits.amax(1))
        # exp(-inf - -inf) and 0 * -inf have no value; the floor keeps both at an exact 0.
        shift = (before - after).clamp_(min=_FLOOR)
        logits.sub_(after[:, None]).clamp_(min=_FLOOR)
        torch.exp(logits, out=spare)
        decay = shift.exp()
        moment[rows] = (moment[rows] + mass[rows] * shift) * decay + logits.mul_(spare).sum(1)
        mass[rows] = mass[rows] * decay + spare.sum(1)
        peak[rows] = after
    log_mass = mass.log()
    normaliser = peak + log_mass
    return picked - normaliser, log_mass - moment / mass, normaliser


def _rescan(
    states: Tensor,
    weight: Tensor,
    target: Tensor,
    normaliser: Tensor,
    grad: Tensor,
    bonus: tuple[Tensor, Tensor] | None,
    grad_states: Tensor | None,
    grad_weight: Tensor | None,
) -> None:
    """d logprob / d logits = onehot - softmax, tile by tile, pushed on into the two gradients given.

    ``bonus``: the gradient of the entropy H and H itself, [T] each; d H / d logits = -p (log p + H).
    """
    sums: Tensor | None = None
    for start, tile, rows, logits in _tiles(states, weight, buffers=1):
        stop = start + tile.shape[0]
        logits.sub_(normaliser[rows, None])
        if bonus is None:
            slope = logits.exp_().mul_(-grad[rows, None])
        else:
            logits.clamp_(min=_FLOOR)  # 0 * -inf has no value
            slope = logits.exp().mul_(-(grad[rows, None] + bonus[0][rows, None] * (logits + bonus[1][rows, None])))
        local = target[rows] - start
        hit = ((local >= 0) & (local < tile.shape[0])).nonzero()[:, 0]
        slope[hit, local[hit]] += grad[rows][hit]
        if grad_states is not None:
            grad_states[rows].addmm_(slope, tile)
        if grad_weight is None:
            continue
        if rows.start == 0:
            same = grad_weight.dtype == states.dtype
            sums = grad_weight[start:stop] if same else torch.empty_like(tile)
            torch.mm(slope.t(), states[rows], out=sums)
        else:
            assert sums is not None
            sums.addmm_(slope.t(), states[rows])
        if rows.stop == states.shape[0] and sums.dtype != grad_weight.dtype:
            grad_weight[start:stop] = sums


_FLOOR = -80.0
"""exp(-80) = 2e-35: nothing against a mass of at least 1, and above where float32 turns denormal (and slow)."""


def _tiles(states: Tensor, weight: Tensor, *, buffers: int) -> Iterator[Any]:
    """(first vocabulary row, weight tile, token slice, logits, further buffers...) over all tiles, tokens innermost.

    The buffers are reused from tile to tile: fresh pages cost more than the arithmetic done in them.
    """
    tokens, width = states.shape[0], min(VOCAB_TILE, weight.shape[0])
    height = max(1, min(tokens, TILE_ELEMENTS // width))
    pool = [states.new_empty(height * width) for _ in range(buffers)]
    for start in range(0, weight.shape[0], width):
        tile = weight[start : start + width].to(states.dtype)
        for first in range(0, tokens, height):
            rows = slice(first, min(first + height, tokens))
            shape = (rows.stop - rows.start, tile.shape[0])
            views = [buffer[: shape[0] * shape[1]].view(shape) for buffer in pool]
            torch.mm(states[rows], tile.t(), out=views[0])
            yield (start, tile, rows, *views)


def _room_for(weight: Tensor, tokens: int) -> Tensor:
    """Space for the weight's gradient: every tile writes it whole, unless there is no token at all."""
    return torch.empty_like(weight) if tokens else torch.zeros_like(weight)


def _scaled(hidden: Tensor, scale: float | Tensor) -> Tensor:
    """Hidden states in the compute dtype over the temperature: [T, H] is small, [T, V] is not."""
    states = hidden.to(torch.float64 if hidden.dtype == torch.float64 else torch.float32)
    return states if isinstance(scale, float) and scale == 1.0 else states * _column(scale)


def _column(scale: float | Tensor) -> float | Tensor:
    """A scale for each row [T] as it multiplies [T, H]."""
    return scale[:, None] if isinstance(scale, Tensor) else scale


@contextmanager
def _exact_products(device: str) -> Iterator[None]:
    """Float32 products in float32: no TF32, no bf16 passes, no autocast."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
