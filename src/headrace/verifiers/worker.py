"""A verifier process: ``python -m headrace.verifiers.worker SOCKET_FD PROGRESS_FD PARENT_PID``. Started by the pool."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.protocols import Verifier
from headrace.records import Verdict
from headrace.verifiers.spec import VerifierSpec, make_verifier
from headrace.verifiers.wire import IDLE, ProgressPage, clipped, pack_verdicts, recv_frame, send_frame

FLUSH_S = 0.005
"""Verdicts wait at most this long for others to travel with (unless an item takes longer)."""

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Judge batches until the pool hangs up."""
    sock_fd, progress_fd, parent = (int(value) for value in arguments)
    _follow_parent(parent)
    sock = socket.socket(fileno=sock_fd)
    progress = ProgressPage(progress_fd)
    first = recv_frame(sock)
    if first is None:
        return 0
    verifier = _build(pickle.loads(first), sock)
    if verifier is None:
        return 1
    send_frame(sock, b'{"ready": true}')
    while (frame := recv_frame(sock)) is not None:
        _judge_batch(verifier, pickle.loads(frame), sock, progress)
    return 0


def _follow_parent(parent: int) -> None:
    """Die with the controller; leave Ctrl-C to it; be the first to go when memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the closed socket ends us as well
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")


def _build(spec: VerifierSpec, sock: socket.socket) -> Verifier | None:
    try:
        return make_verifier(spec)
    except Exception as error:
        kind = type(error).__name__
        send_frame(sock, json.dumps({"broken": str(error) or kind, "kind": kind}).encode("ascii"))
        return None


def _judge_batch(verifier: Verifier, batch: list[bytes], sock: socket.socket, progress: ProgressPage) -> None:
    done: list[tuple[int, Verdict]] = []
    flushed = time.monotonic()
    for item, payload in enumerate(batch):
        start = time.monotonic()
        progress.write(item, start)
        verdict = judge(verifier, *pickle.loads(payload))
        end = time.monotonic()
        done.append((item, clipped(replace(verdict, time_s=end - start))))
        if end - flushed > FLUSH_S:
            send_frame(sock, pack_verdicts(done))
            done, flushed = [], end
    progress.write(IDLE, 0.0)
    if done:
        send_frame(sock, pack_verdicts(done))


def judge(verifier: Verifier, completion: str, row: Mapping[str, Any]) -> Verdict:
    """The verifier's verdict; whatever it raises becomes an error that names the exception and its place."""
    try:
        verdict = verifier(completion, row)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"the verifier returned {type(verdict).__name__}, not a Verdict")
        return verdict
    except RecursionError:
        # Depth is the response's doing: the gold went through the same code before the run.
        return Verdict(reward=0.0, reason="nested too deeply")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return Verdict(reward=None, error=f"{type(error).__name__}: {str(error)[:300]} ({where})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
