"""Reading tensors out of a published weight buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from headrace.errors import PublicationError

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.records import WeightUpdate


def tensors_of(update: WeightUpdate) -> Iterator[tuple[str, Tensor]]:
    """(name, CPU tensor) for each spec, a view of the buffer where it is writable and aligned, else a copy.

    Raises ``PublicationError`` naming a spec that the buffer does not hold.
    """
    for spec in update.specs:
        raw = update.buffer[spec.offset : spec.offset + spec.nbytes]
        dtype = getattr(torch, spec.dtype, None)
        if not isinstance(dtype, torch.dtype) or len(raw) != spec.nbytes:
            raise PublicationError(f"version {update.version}: the buffer does not hold {spec}")
        if not raw.flags.writeable or raw.ctypes.data % dtype.itemsize:
            raw = raw.copy()
        yield spec.name, torch.from_numpy(raw).view(dtype).view(spec.shape)
