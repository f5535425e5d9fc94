"""Advantages as an exponential average of one-step errors: what an article on ScaleRL runs in the place of GAE.

No paper has it. With the sum of the weights (1 - lambda) kept at 1 it is an average of the past errors, not of the
rewards to come; the backward direction averages what follows, which is GAE at gamma 1 scaled by 1 - lambda.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from headrace.advantages.scan import Array, Mask, discounted, discounted_from_end, next_values, vector
from headrace.errors import RecordError

Direction = Literal["forward", "backward"]


def smoothed(
    reward: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    gamma: float,
    lam: float,
    direction: str = "forward",
    mask: npt.ArrayLike | None = None,
) -> Array:
    """Advantages [L] of one rollout: A_t = lam A_{t-1} + (1 - lam) delta_t, A_{-1} = 0 ('backward': A_{t+1}, A_L = 0).

    delta_t = r_t + gamma V_{t+1} - V_t with V = 0 after the end; ``reward``, ``value`` and ``mask`` as in ``gae``.
    Value targets stay those of GAE. Raises ``RecordError`` on unequal lengths or an unknown direction.
    """
    r = vector(reward, "reward")
    v = vector(value, "value", r)
    keep: Mask = np.ones(len(r), np.bool_) if mask is None else np.asarray(mask, np.bool_)
    if keep.shape != r.shape:
        raise RecordError(f"mask is {list(keep.shape)}, wanted {list(r.shape)}")
    if direction not in ("forward", "backward"):
        raise RecordError(f"direction {direction!r} is none of forward, backward")
    errors = (1 - lam) * (r[keep] + gamma * next_values(v[keep], 0.0) - v[keep])
    advantage = np.zeros_like(r)
    advantage[keep] = discounted(errors, lam) if direction == "forward" else discounted_from_end(errors, lam)
    return advantage
