"""What a request must be before any engine queues it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headrace.errors import DataError

if TYPE_CHECKING:
    from headrace.records import GenerationRequest


def check_request(request: GenerationRequest, *, max_len: int, vocab_size: int, lineage: int) -> None:
    """Raise ``DataError`` naming the request and what is wrong with it."""
    who = f"request {request.request_id!r}"
    size = len(request.prefix_ids)
    if size == 0:
        raise DataError(f"{who} has an empty prefix: there is nothing to continue")
    if request.max_tokens < 1:
        raise DataError(f"{who} asks for {request.max_tokens} tokens; at least 1 is needed")
    if size + request.max_tokens > max_len:
        raise DataError(
            f"{who} does not fit the context: {size} prefix tokens + {request.max_tokens} new ones > {max_len}"
        )
    if not 0 <= int(request.prefix_ids.min()) <= int(request.prefix_ids.max()) < vocab_size:
        raise DataError(f"{who} has prefix tokens outside the vocabulary of {vocab_size}")
    if not (request.temperature >= 0 and math.isfinite(request.temperature)):
        raise DataError(f"{who} has temperature {request.temperature}; it must be a finite number >= 0")
    if not 0 <= request.seed < 2**63:
        raise DataError(f"{who} has seed {request.seed}; it must lie in [0, 2**63)")
    if request.lineage != lineage:
        raise DataError(f"{who} belongs to lineage {request.lineage}, the engine to {lineage}")
