"""A checksum for weights, fast enough to run inside a copy: about the speed of the copy itself.

The bytes are read as rows of 512 eight-byte words; the rows of a chunk are added up word by word (mod 2**64) and the
sums go through CRC-32 in order. Any change of a single word is found for certain; so is a chunk of another version,
except with probability 2**-32. It is no protection against someone who means harm.
"""

from __future__ import annotations

import zlib

import numpy as np

from headrace.records import ByteArray

_ROW_BYTES = 512 * 8
_CHUNK_BYTES = 128 * _ROW_BYTES  # 512 KiB: still in the core's cache when it is added up after the copy


def checksum(data: ByteArray) -> int:
    """The checksum of a contiguous byte array."""
    return copy_with_checksum(None, data)


def copy_with_checksum(target: ByteArray | None, source: ByteArray) -> int:
    """Copy ``source`` into ``target`` (as long, or None for no copy); the checksum of what ``target`` then holds."""
    crc = 0
    for start in range(0, len(source), _CHUNK_BYTES):
        chunk = source[start : start + _CHUNK_BYTES]
        if target is not None:
            copied = target[start : start + _CHUNK_BYTES]
            copied[:] = chunk
            chunk = copied
        crc = zlib.crc32(_sums(chunk), crc)
    return crc


def _sums(chunk: ByteArray) -> bytes:
    whole = len(chunk) - len(chunk) % _ROW_BYTES
    rows = chunk[:whole].view(np.uint64).reshape(-1, _ROW_BYTES // 8)
    sums = np.add.reduce(rows, axis=0, dtype=np.uint64).tobytes() if whole else b""
    return sums + chunk[whole:].tobytes()
