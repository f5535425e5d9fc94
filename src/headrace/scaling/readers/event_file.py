"""Scalars of TensorBoard event files, read without TensorBoard.

A file is a sequence of records: length (8 bytes, little endian), its checksum (4), the record, its checksum (4). A
record is a protocol-buffer ``Event`` (tensorflow/core/util/event.proto): field 2 is the step, field 5 a ``Summary``
whose values (field 1) have a tag (1) and a ``simple_value`` (2) or a tensor (8). Checksums are not verified: what a
kill tore is the end of the file, and lengths show that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors import DataError

PATTERN = "*tfevents*"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_event_files(path: Path) -> list[dict[str, Any]]:
    """One row a step, ``{"step": 20, "eval/mean_at_n": 0.31, ...}``, of a file or of all event files of a folder.

    A later value of the same step and tag (a resumed run) replaces the earlier one.
    """
    files = [path] if path.is_file() else sorted(path.rglob(PATTERN), key=lambda file: file.name)
    rows: dict[int, dict[str, Any]] = {}
    for file in files:
        for record in _records(file):
            step, values = _event(record, file)
            for tag, value in values:
                rows.setdefault(step, {"step": step})[tag] = value
    return [rows[step] for step in sorted(rows)]


def _records(file: Path) -> Iterator[bytes]:
    data = file.read_bytes()
    at = 0
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        if at + 16 + length > len(data):
            return  # torn by a kill
        yield data[at + 12 : at + 12 + length]
        at += 16 + length


def _event(record: bytes, file: Path) -> tuple[int, list[tuple[str, float]]]:
    step, values = 0, []
    try:
        for number, value in _fields(record):
            if number == 2:
                step = int(value)
            elif number == 5:
                values = [found for n, part in _fields(value) if n == 1 and (found := _scalar(part)) is not None]
    except (IndexError, struct.error, TypeError, UnicodeDecodeError):
        raise DataError(f"{file} is not a TensorBoard event file, or it is damaged") from None
    return step, values


def _scalar(message: bytes) -> tuple[str, float] | None:
    tag, found = "", None
    for number, value in _fields(message):
        if number == 1:
            tag = value.decode("utf-8")
        elif number == 2:
            (found,) = struct.unpack("<f", value)
        elif number == 8:
            found = _tensor(value)
    return None if found is None else (tag, float(found))


def _tensor(message: bytes) -> float | None:
    """The value of a scalar tensor of floats (dtype 1) or doubles (2), None for anything else."""
    kind, content, listed = 0, b"", b""
    for number, value in _fields(message):
        if number == 1:
            kind = int(value)
        elif number == 4:
            content = value
        elif number in (5, 6):
            listed = value
    form = {1: "<f", 2: "<d"}.get(kind)
    data = content or listed
    return float(struct.unpack(form, data)[0]) if form and len(data) == struct.calcsize(form) else None


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a protocol-buffer message: int for a varint, bytes for everything else."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise struct.error("unknown wire type")
        if at + length > len(message):
            raise struct.error("field longer than its message")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
