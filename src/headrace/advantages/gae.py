"""Generalised advantage estimation (Schulman et al., arXiv 1506.02438 eq. 16) over the trainable tokens of a rollout.

delta_t = r_t + gamma V_{t+1} - V_t, A_t = delta_t + gamma lambda A_{t+1}, return R_t = A_t + V_t. Whitening comes after
the returns are taken and is a matter of its own (``advantages/whiten.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.advantages.scan import (
    Array,
    Mask,
    discounted_each_from_end,
    discounted_from_end,
    next_values,
    runs,
    vector,
)
from headrace.errors import RecordError

LENGTH_ALPHA = 0.05


def gae(
    reward: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    gamma: float,
    lam: float,
    bootstrap: float = 0.0,
    mask: npt.ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Advantages and returns [L] of one rollout.

    ``reward`` [L] per token, ``value`` [L] of the state before each token, ``bootstrap`` the value after the last one
    (0 when the rollout ended). ``mask`` [L] bool, True = trainable; a token that is not (a tool's answer) is passed
    over as if it were not there, its reward and value are not read, and it gets 0. Raises ``RecordError`` on unequal
    lengths.
    """
    return segment_gae(reward, value, gamma=gamma, lam=lam, bootstrap=bootstrap, mask=mask, segment_tokens=None)


def segment_gae(
    reward: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    gamma: float,
    lam: float,
    segment_tokens: int | None,
    bootstrap: float = 0.0,
    mask: npt.ArrayLike | None = None,
) -> tuple[Array, Array]:
    """``gae`` worked out in pieces of ``segment_tokens`` trainable tokens, the last piece first; the same numbers.

    What crosses a border is the advantage and the value of the token after it, so pieces can come one at a time.
    ``segment_tokens`` None: one piece. Raises ``RecordError`` on unequal lengths or pieces of less than one token.
    """
    if segment_tokens is not None and segment_tokens < 1:
        raise RecordError(f"segment_tokens {segment_tokens} is below 1")
    r = vector(reward, "reward")
    v = vector(value, "value", r)
    keep = np.ones(len(r), np.bool_) if mask is None else _mask(mask, r)
    advantage, returns = np.zeros_like(r), np.zeros_like(r)
    advantage[keep] = _in_pieces(r[keep], v[keep], gamma, lam, bootstrap, segment_tokens or max(len(r), 1))
    returns[keep] = advantage[keep] + v[keep]
    return advantage, returns


def batched_gae(
    reward: npt.ArrayLike,
    value: npt.ArrayLike,
    lengths: npt.ArrayLike,
    *,
    gamma: float,
    lam: npt.ArrayLike,
    bootstrap: npt.ArrayLike = 0.0,
) -> tuple[Array, Array]:
    """``gae`` of many rollouts at once: advantages and returns [N].

    ``reward`` and ``value`` [N] hold the trainable tokens of B rollouts end to end, ``lengths`` [B] how many each has;
    ``lam`` and ``bootstrap`` are numbers or [B]. Rollout by rollout the numbers are those of ``gae``.
    """
    r = vector(reward, "reward")
    v = vector(value, "value", r)
    counts, ends = runs(lengths, len(r))
    filled = counts > 0
    last = ends[filled] - 1
    after = next_values(v, 0.0)
    after[last] = np.broadcast_to(np.asarray(bootstrap, np.float64), counts.shape)[filled]
    decay = gamma * np.repeat(np.broadcast_to(np.asarray(lam, np.float64), counts.shape), counts)
    decay[last] = 0.0
    advantage = discounted_each_from_end(r + gamma * after - v, decay)
    return advantage, advantage + v


def length_adaptive_lambda(length: int, alpha: float = LENGTH_ALPHA) -> float:
    """max(0, 1 - 1 / (alpha length)): the sum of lambda^t over all t is alpha x length (VAPO, arXiv 2504.05118).

    100 tokens .80, 1000 .98, 8000 .9975; below 1 / alpha tokens the formula is negative and 0 is taken.
    Raises ``ValueError`` unless ``alpha`` is positive.
    """
    if alpha <= 0:
        raise ValueError(f"alpha {alpha} is not positive")
    return max(0.0, 1.0 - 1.0 / (alpha * length)) if length > 0 else 0.0


def _in_pieces(r: Array, v: Array, gamma: float, lam: float, bootstrap: float, size: int) -> Array:
    advantage, later, after = np.zeros_like(r), 0.0, bootstrap
    for end in range(len(r), 0, -size):
        piece = slice(max(end - size, 0), end)
        delta = r[piece] + gamma * next_values(v[piece], after) - v[piece]
        advantage[piece] = discounted_from_end(delta, gamma * lam, later)
        later, after = float(advantage[piece.start]), float(v[piece.start])
    return advantage


def _mask(mask: npt.ArrayLike, like: Array) -> Mask:
    keep = np.asarray(mask, dtype=np.bool_)
    if keep.shape != like.shape:
        raise RecordError(f"mask is {list(keep.shape)}, wanted {list(like.shape)}")
    return keep
