"""Roles for the supervisor's tests. Imported by the processes that play them, not by the tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from headrace.errors import DataError
from headrace.records import TensorSpec, WeightUpdate


def start_sleepers(own_session=False):
    """A grandchild with a child of its own, both running when this returns the grandchild's id."""
    command = ["sh", "-c", "sleep 600 & echo started; wait"]
    grandchild = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=own_session)
    assert grandchild.stdout.readline() == b"started\n"
    return grandchild.pid


class Controller:
    """Counts messages back from its workers, reports each round, ends them, returns the sum."""

    def __init__(self, context, workers, rounds=3, mode="count"):
        self.context, self.workers, self.rounds, self.mode = context, workers, rounds, mode

    def run(self):
        peers = [self.context.peer(name) for name in self.workers]
        total = 0
        if self.mode == "grandchildren":
            self.context.report({"grandchild": start_sleepers(), "far_grandchild": start_sleepers(own_session=True)})
        for number in range(self.rounds):
            for peer in peers:
                peer.send(number)
            total += sum(peer.recv(timeout_s=20.0) for peer in peers)
            self.context.report({"round": number, "total": total})
            self.wait()
            if self.context.stop_requested:
                break
        for peer in peers:
            peer.send("stop")
        if self.context.stop_requested:
            (self.context.run_folder / "checkpoint").write_text(self.context.stop_reason)
        return {"total": total, "rounds": number + 1}

    def wait(self):
        if self.mode == "deaf":
            time.sleep(600)
        if self.mode == "busy":
            re.match(r"(a+)+$", "a" * 60 + "b")  # years inside C, without letting another thread run
        if self.mode in ("slow", "grandchildren"):
            self.context.stop.wait(0.05)


class Worker:
    """Doubles numbers until told to stop."""

    def __init__(self, context, mode="double"):
        self.context, self.mode = context, mode

    def run(self):
        controller = self.context.peer("controller")
        while True:
            message = controller.recv()
            if message == "stop":
                break
            controller.send(self.answer(message))
        if self.mode == "lingers":
            threading.Thread(target=time.sleep, args=(600,)).start()

    def answer(self, number):
        if number == 1 and self.mode == "raises":
            print("about to divide by zero")
            return 1 // 0
        if number == 1 and self.mode == "user_mistake":
            raise DataError("row 7 of rows.jsonl has no column 'answer'")
        if number == 1 and self.mode == "leaves":
            os._exit(0)
        if number == 1 and self.mode == "code":
            os._exit(5)
        if number == 1 and self.mode == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        return 2 * number


class Environment:
    """Says what its process looks like."""

    def __init__(self, context):
        self.context = context

    def run(self):
        return {
            "threads": os.environ["OMP_NUM_THREADS"],
            "extra": os.environ.get("EXTRA"),
            "run_id": os.environ["HEADRACE_RUN_ID"],
            "leads_group": os.getpgrp() == os.getpid(),
            "torch": "torch" in sys.modules,
            "grandchild_ignores": subprocess.run(
                [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip(),
        }


def update(version, lineage=0, size=100_000):
    buffer = np.full(size, version % 251, dtype=np.uint8)
    spec = TensorSpec(name="w", dtype="uint8", shape=(size,), offset=0, nbytes=size)
    return WeightUpdate(lineage=lineage, version=version, kind="full", specs=(spec,), buffer=buffer)


class Publisher:
    """Publishes versions 0..n-1, each once the reader has said which one it took."""

    def __init__(self, context, num_versions=5):
        self.context, self.num_versions = context, num_versions

    def run(self):
        reader = self.context.peer("reader")
        writer = self.context.weight_writer(update(0))
        taken = []
        for version in range(self.num_versions):
            writer.publish(update(version))
            taken.append(reader.recv(timeout_s=20.0))
        reader.send("stop")
        return taken


class Reader:
    def __init__(self, context):
        self.context = context

    def run(self):
        publisher = self.context.peer("controller")
        weights = self.context.weight_reader()
        have = -1
        while not publisher.poll(0.0):
            found = weights.newest(have, 0)
            if found is not None:
                have = found.version
                publisher.send((have, int(found.buffer.sum())))
            time.sleep(0.001)


class Loner:
    """Publishes to nobody."""

    def __init__(self, context):
        self.context = context

    def run(self):
        self.context.weight_writer(update(0)).publish(update(0))


class Introducer:
    """Waits for channels that come later, from two attempts of the same peer."""

    def __init__(self, context):
        self.context = context
        self.arrived = threading.Semaphore(0)
        self.channels = []
        context.on_peer(self.take)

    def take(self, name, channel):
        self.channels.append((name, channel))
        self.arrived.release()

    def run(self):
        heard = []
        self.context.report({"ready": True})
        for _ in range(2):
            assert self.arrived.acquire(timeout=20.0)
            name, channel = self.channels[-1]
            heard.append((name, channel.recv(timeout_s=20.0)))
            self.context.report({"heard": heard[-1]})
        return heard


class Greeter:
    """Greets whoever a channel leads to, again for each new channel."""

    def __init__(self, context):
        self.context = context
        context.on_peer(lambda name, channel: channel.send(f"hello {name}"))

    def run(self):
        self.context.report({"ready": True})
        self.context.stop.wait(20.0)
