"""Frames on the pipes between the verifier and its sandbox: 8 bytes of length, then the body.

Bodies towards the sandbox are ``marshal``; what comes out is never unmarshalled: see ``reply_bytes``.
"""

from __future__ import annotations

import os
import struct

LENGTH = struct.Struct("<Q")
REPLY = struct.Struct("<BidQQQ")
"""How the run ended, its code, seconds; then the lengths of result, standard output and the end of standard error."""

ENDED, SIGNALLED, TIMED_OUT, TOO_MUCH_OUTPUT, BROKEN = range(5)


def read_exactly(fd: int, size: int) -> bytes | None:
    """``size`` bytes, or None when the other side has closed."""
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def read_frame(fd: int) -> bytes | None:
    """The next body, or None when the other side has closed."""
    head = read_exactly(fd, LENGTH.size)
    return None if head is None else read_exactly(fd, LENGTH.unpack(head)[0])


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def reply_bytes(how: int, code: int, seconds: float, result: bytes, output: bytes, errors: bytes) -> bytes:
    """The body that describes one run."""
    return REPLY.pack(how, code, seconds, len(result), len(output), len(errors)) + result + output + errors
