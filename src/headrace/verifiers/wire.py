"""What the pool and its workers say to each other: frames over a socket pair, and a progress page they share.

Rows go out pickled (they are ours); verdicts come back as JSON, so that nothing a verifier process says is ever
executed by the process that reads it.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
from dataclasses import replace
from itertools import islice
from typing import Any

from headrace.records import Verdict

HEADER = struct.Struct("<Q")
_PROGRESS = struct.Struct("<qd")
_PAGE_BYTES = 4096

IDLE = -1
MAX_TEXT = 2000


class ProgressPage:
    """Which item of its batch a worker is at, and since when (``CLOCK_MONOTONIC``, the same clock in every process).

    It lies in memory both sides map, so that a worker in an endless loop has still told what it was at.
    """

    def __init__(self, fd: int) -> None:
        os.ftruncate(fd, _PAGE_BYTES)
        self._map = mmap.mmap(fd, _PAGE_BYTES)

    def write(self, item: int, since_s: float) -> None:
        _PROGRESS.pack_into(self._map, 0, item, since_s)

    def read(self) -> tuple[int, float]:
        """(item or ``IDLE``, start time)."""
        item, since_s = _PROGRESS.unpack_from(self._map, 0)
        return int(item), float(since_s)

    def close(self) -> None:
        self._map.close()


def send_frame(sock: socket.socket, payload: bytes) -> None:
    sock.sendall(HEADER.pack(len(payload)) + payload)


def recv_frame(sock: socket.socket) -> bytes | None:
    """The next frame, or None when the other side is gone."""
    header = _recv_exactly(sock, HEADER.size)
    return None if header is None else _recv_exactly(sock, HEADER.unpack(header)[0])


def _recv_exactly(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def pack_verdicts(verdicts: list[tuple[int, Verdict]]) -> bytes:
    """JSON of (item, verdict) pairs; lone surrogates and non-finite rewards survive the trip."""
    rows = [[item, v.reward, v.passed, v.reason, v.error, dict(v.parts), v.answer, v.time_s] for item, v in verdicts]
    return json.dumps({"verdicts": rows}).encode("ascii")


def unpack_verdicts(rows: list[list[Any]]) -> list[tuple[int, Verdict]]:
    """The (item, verdict) pairs of ``pack_verdicts``. Raises ``ValueError`` or ``TypeError`` for anything else."""
    return [(int(item), _verdict(*fields)) for item, *fields in rows]


def _verdict(reward: Any, passed: Any, reason: Any, error: Any, parts: Any, answer: Any, time_s: Any) -> Verdict:
    return Verdict(
        reward=None if reward is None else float(reward),
        passed=bool(passed),
        reason=str(reason),
        error=None if error is None else str(error),
        parts={str(name): float(value) for name, value in dict(parts).items()},
        answer=None if answer is None else str(answer),
        time_s=float(time_s),
    )


def clipped(verdict: Verdict) -> Verdict:
    """The verdict with texts of at most 2000 characters and at most 64 parts: what it says, not what it quotes."""
    return replace(
        verdict,
        reason=verdict.reason[:MAX_TEXT],
        error=None if verdict.error is None else verdict.error[:MAX_TEXT],
        answer=None if verdict.answer is None else verdict.answer[:MAX_TEXT],
        parts=dict(islice(verdict.parts.items(), 64)),
    )
