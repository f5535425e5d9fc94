"""One message as bytes: 8 bytes that say how many follow, then a pickle, then the large arrays it refers to.

An array of 64 KiB or more is not copied into the pickle: it is sent from where it lies and comes out as a (writable)
view of the bytes received. Everything smaller is pickled as usual.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np

from headrace.errors import RecordError

HEAD_BYTES = 8
OUT_OF_BAND_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1 << 40
ALIGNMENT = 64  # of arrays within a frame, so that they can be computed on where they lie

_HEAD = struct.Struct("<Q")
_COUNTS = struct.Struct("<QQ")  # bytes of the pickle, number of arrays


def encode(message: Any) -> list[memoryview]:
    """The frame of a message, in pieces to be sent one after the other. Raises what pickling raises."""
    arrays: list[memoryview] = []

    def keep_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        with memoryview(buffer) as view:
            if view.nbytes < OUT_OF_BAND_BYTES:
                return True
        arrays.append(buffer.raw())
        return False

    body = pickle.dumps(message, protocol=5, buffer_callback=keep_in_pickle)
    sizes = np.array([a.nbytes for a in arrays], dtype="<u8").tobytes()
    start = _COUNTS.size + len(sizes) + len(body)
    pieces = [memoryview(b"".join([_COUNTS.pack(len(body), len(arrays)), sizes, body]))]
    for array in arrays:
        padding = -start % ALIGNMENT
        pieces += [memoryview(bytes(padding)), array]
        start += padding + array.nbytes
    if start < OUT_OF_BAND_BYTES:
        return [memoryview(b"".join([_HEAD.pack(start), *pieces]))]
    return [memoryview(_HEAD.pack(start)), *(p for p in pieces if p.nbytes)]


def decode(frame: memoryview) -> Any:
    """The message of a frame's bytes (without the first 8). Large arrays in it are views of ``frame``."""
    num_pickle, num_arrays = _COUNTS.unpack_from(frame, 0)
    sizes = [_HEAD.unpack_from(frame, _COUNTS.size + _HEAD.size * i)[0] for i in range(num_arrays)]
    start = _COUNTS.size + _HEAD.size * num_arrays
    body = frame[start : start + num_pickle]
    start += num_pickle
    arrays = []
    for size in sizes:
        start += -start % ALIGNMENT
        arrays.append(frame[start : start + size])
        start += size
    return pickle.loads(body, buffers=arrays)


class FrameReader:
    """Puts frames together from bytes as they arrive: fill ``space``, say how many bytes came, take the message."""

    def __init__(self) -> None:
        self._expect_head()

    def _expect_head(self) -> None:
        self._in_body = False
        self._target = memoryview(bytearray(HEAD_BYTES))
        self._filled = 0

    @property
    def at_border(self) -> bool:
        """Nothing of the next frame has arrived."""
        return not self._in_body and self._filled == 0

    @property
    def in_head(self) -> bool:
        return not self._in_body

    def space(self) -> memoryview:
        """Where the next bytes go; never longer than what is missing of the frame."""
        return self._target[self._filled :]

    def advance(self, num_bytes: int) -> bool:
        """Account for ``num_bytes`` written into ``space``; True when a message can be taken."""
        self._filled += num_bytes
        if self._filled < self._target.nbytes:
            return False
        if self._in_body:
            return True
        (length,) = _HEAD.unpack(self._target)
        if not _COUNTS.size <= length <= MAX_FRAME_BYTES:
            raise RecordError(f"a message of {length} bytes was announced: this is not a channel, or it is corrupted")
        self._in_body = True
        self._target = np.empty(length, dtype=np.uint8).data
        self._filled = 0
        return False

    def take(self) -> Any:
        """The complete message; the reader then expects the next one."""
        frame = self._target
        self._expect_head()
        return decode(frame)
