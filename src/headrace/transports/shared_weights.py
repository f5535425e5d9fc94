"""Published weights in shared memory: two buffers that take turns, one writer, any number of readers.

The segment, in order (all numbers are little-endian 64-bit words)::

    header   4096 bytes   magic, format, capacity of a buffer, capacity of a manifest, number of publications n;
                          then for each of the two slots: sequence, lineage, version, manifest bytes, weight bytes,
                          checksum of the manifest, checksum of the weights
    manifest of slot 0, manifest of slot 1      pickle of the update without its bytes: specs, kind, probe scores
    weights of slot 0, weights of slot 1

Publication n goes into slot n % 2, so the one before it stays readable meanwhile. The writer makes the slot's sequence
odd, writes, makes it even, and only then counts n up. A reader copies and looks at the sequence again: when it moved,
it starts over with the newest slot. The checksums catch what the sequence cannot (a processor that reorders stores,
memory that was damaged).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import sys
import time
import zlib
from dataclasses import replace

import numpy as np

from headrace.errors import PublicationError
from headrace.records import ByteArray, WeightUpdate
from headrace.transports.checksum import copy_with_checksum
from headrace.transports.memory import anonymous_memory

PAGE = 4096
MANIFEST_BYTES = 1 << 20  # room for specs and probe scores, at least
READ_ATTEMPTS = 20
_MAGIC = int.from_bytes(b"HEADRACE", "little")
_FORMAT = 1
_FIELDS = 8  # words a slot has in the header
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # Linux 5.14 and later; not named in ``mmap``

# Words of the header, and of a slot (counted from the slot's first word).
_W_MAGIC, _W_FORMAT, _W_WEIGHTS, _W_MANIFEST, _W_PUBLISHED, _W_SLOTS = range(6)
_SEQUENCE, _LINEAGE, _VERSION, _MANIFEST_BYTES, _WEIGHT_BYTES, _MANIFEST_SUM, _WEIGHT_SUM = range(7)


def _pages(nbytes: int) -> int:
    return -(-nbytes // PAGE) * PAGE


def segment_bytes(nbytes: int, manifest_nbytes: int = MANIFEST_BYTES) -> int:
    """Size of a segment whose buffers hold ``nbytes`` of weights each, and ``manifest_nbytes`` of everything else."""
    return PAGE + 2 * _pages(manifest_nbytes) + 2 * _pages(nbytes)


class SharedWeights:
    """A mapped segment. One process has it formatted; the others map the same descriptor, before or after that."""

    def __init__(self, fd: int) -> None:
        """Map the memory behind ``fd``, which this object owns from now on."""
        self._fd = fd
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        self.words = memoryview(self._map)[:PAGE].cast("Q")
        self._regions: list[tuple[ByteArray, ByteArray]] = []

    @classmethod
    def create(cls, nbytes: int, manifest_nbytes: int = MANIFEST_BYTES) -> SharedWeights:
        """A new segment in memory of its own, formatted."""
        segment = cls(anonymous_memory(segment_bytes(nbytes, manifest_nbytes), label="headrace-weights"))
        segment.format(nbytes, manifest_nbytes)
        return segment

    def fileno(self) -> int:
        """The descriptor to pass on; it stays this object's."""
        return self._fd

    @property
    def formatted(self) -> bool:
        return self.words[_W_MAGIC] == _MAGIC

    def format(self, nbytes: int, manifest_nbytes: int = MANIFEST_BYTES) -> None:
        """Write the header, unless it is there already: a restarted writer goes on in its predecessor's segment."""
        needed = segment_bytes(nbytes, manifest_nbytes)
        if needed > len(self._map):
            raise PublicationError(f"weights of {nbytes} bytes need {needed} bytes, the segment has {len(self._map)}")
        if self.formatted:
            return
        self.words[_W_FORMAT] = _FORMAT
        self.words[_W_WEIGHTS] = nbytes
        self.words[_W_MANIFEST] = manifest_nbytes
        self._touch_pages(_POPULATE_WRITE)
        self.words[_W_MAGIC] = _MAGIC

    def _touch_pages(self, advice: int) -> None:
        # The first touch of a page costs ten times a copy into it: better at the start than during a publication.
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._map.madvise(advice)

    def regions(self, slot: int) -> tuple[ByteArray, ByteArray]:
        """The manifest's and the weights' bytes of slot 0 or 1, whole."""
        if not self._regions:
            if self.words[_W_FORMAT] != _FORMAT:
                raise PublicationError(f"the weight segment has format {self.words[_W_FORMAT]}, not {_FORMAT}")
            self._touch_pages(_POPULATE_READ)
            nbytes, manifest_nbytes = self.words[_W_WEIGHTS], self.words[_W_MANIFEST]
            everything = np.frombuffer(self._map, dtype=np.uint8)
            start = PAGE + 2 * _pages(manifest_nbytes)
            for number in (0, 1):
                manifest = everything[PAGE + number * _pages(manifest_nbytes) :][:manifest_nbytes]
                self._regions.append((manifest, everything[start + number * _pages(nbytes) :][:nbytes]))
        return self._regions[slot]

    def writer(self) -> SharedWeightWriter:
        return SharedWeightWriter(self)

    def reader(self) -> SharedWeightReader:
        return SharedWeightReader(self)

    def close(self) -> None:
        """Unmap and close the descriptor; the memory is freed when the last process has done so (or ended)."""
        if self._fd < 0:
            return
        self._regions = []
        self.words.release()
        with contextlib.suppress(BufferError):  # someone still holds a view of a region; the map goes with it
            self._map.close()
        os.close(self._fd)
        self._fd = -1


class SharedWeightWriter:
    """The trainer's end. There must be one writer at a time."""

    def __init__(self, segment: SharedWeights) -> None:
        if not segment.formatted:
            raise PublicationError("the weight segment was not formatted")
        self._segment = segment

    def publish(self, update: WeightUpdate) -> None:
        """Copy the update into the older slot, then make it the newest. ``PublicationError`` when it does not fit."""
        words = self._segment.words
        published = words[_W_PUBLISHED] + 1
        slot = published % 2
        manifest_to, weights_to = self._segment.regions(slot)
        weights = update.buffer.reshape(-1)
        manifest = pickle.dumps(replace(update, buffer=weights[:0].copy()), protocol=5)
        self._check_fits(update, len(manifest), len(manifest_to), weights.nbytes, len(weights_to))

        first = _W_SLOTS + slot * _FIELDS
        words[first + _SEQUENCE] |= 1  # it is odd already when the last writer died in here
        words[first + _LINEAGE], words[first + _VERSION] = update.lineage, update.version
        words[first + _MANIFEST_BYTES], words[first + _WEIGHT_BYTES] = len(manifest), weights.nbytes
        manifest_to[: len(manifest)] = np.frombuffer(manifest, dtype=np.uint8)
        words[first + _MANIFEST_SUM] = zlib.crc32(manifest)
        words[first + _WEIGHT_SUM] = copy_with_checksum(weights_to[: weights.nbytes], weights)
        words[first + _SEQUENCE] += 1
        words[_W_PUBLISHED] = published

    @staticmethod
    def _check_fits(update: WeightUpdate, manifest: int, manifest_room: int, weights: int, weights_room: int) -> None:
        if weights > weights_room:
            raise PublicationError(
                f"version {update.version} has {weights} bytes of weights, the segment holds {weights_room}"
            )
        if manifest > manifest_room:
            raise PublicationError(
                f"specs and probe scores of version {update.version} need {manifest} bytes, the segment holds"
                f" {manifest_room}: fewer or shorter probe sequences"
            )


class SharedWeightReader:
    """A generator's end. The buffer of an update is reused for the next one once nothing refers to it any more."""

    def __init__(self, segment: SharedWeights) -> None:
        self._segment = segment
        self._buffer: ByteArray = np.empty(0, dtype=np.uint8)
        self.num_retries = 0

    def newest(self, have: int, lineage: int = 0) -> WeightUpdate | None:
        """The newest update if it is newer than version ``have`` of ``lineage``, else None (in about a microsecond).

        Versions may be skipped; any version of a later lineage is newer. Raises ``PublicationError`` when the newest
        update is damaged. None too when the writer overtakes the reader time after time; the next call tries again.
        """
        words = self._segment.words
        if words[_W_MAGIC] != _MAGIC or words[_W_PUBLISHED] == 0:
            return None
        damaged = 0
        for _ in range(READ_ATTEMPTS):
            first = _W_SLOTS + (words[_W_PUBLISHED] % 2) * _FIELDS
            if (words[first + _LINEAGE], words[first + _VERSION]) <= (lineage, have):
                return None
            sequence = words[first + _SEQUENCE]
            update = None if sequence % 2 else self._copy(first)
            if sequence % 2 == 0 and words[first + _SEQUENCE] == sequence:
                if update is not None:
                    return update
                damaged += 1
                if damaged == 3:
                    raise PublicationError(
                        f"version {words[first + _VERSION]} (lineage {words[first + _LINEAGE]}) in shared memory does"
                        " not match its checksum"
                    )
            self.num_retries += 1
            time.sleep(0)
        return None

    def _copy(self, first: int) -> WeightUpdate | None:
        """The update in a slot; None when its bytes are not what the header says (it is being written, or damaged)."""
        words = self._segment.words
        manifest_from, weights_from = self._segment.regions((first - _W_SLOTS) // _FIELDS)
        manifest_nbytes, nbytes = words[first + _MANIFEST_BYTES], words[first + _WEIGHT_BYTES]
        if manifest_nbytes > len(manifest_from) or nbytes > len(weights_from):
            return None
        manifest = manifest_from[:manifest_nbytes].tobytes()
        if zlib.crc32(manifest) != words[first + _MANIFEST_SUM]:
            return None
        weights = self._room(nbytes)
        if copy_with_checksum(weights, weights_from[:nbytes]) != words[first + _WEIGHT_SUM]:
            return None
        update: WeightUpdate = pickle.loads(manifest)
        if (update.lineage, update.version) != (words[first + _LINEAGE], words[first + _VERSION]):
            return None
        return replace(update, buffer=weights)

    def _room(self, nbytes: int) -> ByteArray:
        # Touching fresh memory costs several times what the copy does, so the last buffer is used again, if no array
        # or tensor made of it is alive: then this object and getrefcount's own argument are all that refer to it.
        if len(self._buffer) < nbytes or sys.getrefcount(self._buffer) > 2:
            self._buffer = np.empty(nbytes, dtype=np.uint8)
        return self._buffer[:nbytes]
