"""Shift and scale to mean 0 and standard deviation 1 over the tokens of a batch. numpy, float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.advantages.scan import Array, vector

WHITEN_DDOF = 1
WHITEN_EPS = 1e-8


def whiten(values: npt.ArrayLike, *, ddof: int = WHITEN_DDOF, eps: float = WHITEN_EPS) -> Array:
    """(x - mean) / sqrt(var + eps) of ``values`` [N]; var takes ``ddof`` off the count.

    ``eps`` lies under the root, as PPO implementations for language models have it. Returns are to be taken before.
    Equal values, and a single one, give exactly 0. Raises ``RecordError`` unless ``values`` is [N].
    """
    x = vector(values, "values")
    if not x.size or np.ptp(x) == 0:
        return np.zeros_like(x)
    deviation = x - x.mean()
    variance = np.square(deviation).sum() / max(len(x) - ddof, 1)
    return np.asarray(deviation / np.sqrt(variance + eps), dtype=np.float64)
