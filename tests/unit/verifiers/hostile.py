"""Hostile samples for the pool: what a user's function may do when a completion says so, and programs to judge."""

import random

from headrace.verifiers.code_block import as_response

FUNCTION = """
import ctypes, os, signal, subprocess, sys, threading, time

def reward(completions, answer, **_):
    text = completions[0]
    if text.startswith("say "):
        return [1.0 if text == "say " + answer[0] else 0.0]
    return globals()[text]()

def nap():
    time.sleep(0.01)
    return [1.0]

def hang():
    while True:
        pass

def sleep():
    signal.alarm(0)
    time.sleep(600)

def stop():
    os.kill(os.getpid(), signal.SIGSTOP)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def leave():
    os._exit(0)

def crash():
    ctypes.string_at(0)

def memory():
    held = []
    while True:
        held.append(b"x" * 30_000_000)

def much_output():
    for _ in range(1000):
        print("x" * 1_000_000)
    return [0.0]

def long_error():
    raise ValueError("x" * 100_000_000)

def nonsense():
    for fd in range(3, 300):
        try:
            os.write(fd, b"\\x05\\0\\0\\0\\0\\0\\0\\0nope!" * 3)
        except OSError:
            pass
    return [0.0]

def huge_frame():
    for fd in range(3, 300):
        try:
            os.write(fd, b"\\xff" * 8)
        except OSError:
            pass
    return [0.0]

def children():
    for _ in range(3):
        subprocess.Popen(["sleep", "601"], start_new_session=True)
    os._exit(1)

def orphans():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(601)
        os._exit(0)
    return hang()
"""

WRONG = ("hang", "sleep", "stop", "die", "leave", "crash", "memory", "children", "orphans")
"""These end their process, or are ended, and are wrong in the end."""
ANYTHING = ("much_output", "long_error", "nonsense", "huge_frame")
"""These get some verdict: an error, or wrong."""

ROW = {"answer": "7"}
CODE_ROW = {
    "tests": [{"stdin": "20\n", "stdout": "21\n"}],
    "limits": {"time_s": 0.2, "memory_mb": 128, "output_bytes": 50_000},
}
GOOD_PROGRAM = "print(int(input()) + 1)"
BAD_PROGRAMS = (
    "print(20)",
    "while True: pass",
    "import time; time.sleep(600)",
    "x = []\nwhile True: x.append(bytearray(10**7))",
    "print('x' * 10**9)",
    "while True: print('x' * 10**6)",
    "import os; os.fork()",
    "import os; os.kill(os.getppid(), 9)",
    "import subprocess; subprocess.Popen(['sleep', '601'])",
    "import ctypes; ctypes.string_at(0)",
    "import os; os._exit(0)",
    "(" * 3000,
    "open('f', 'wb').write(bytes(10**9))",
)


def function_samples(count, share, seed):
    """(completion, expected reward or None for 'any') pairs, a ``share`` of them hostile."""
    rng = random.Random(seed)
    samples = []
    for i in range(count):
        if rng.random() < share:
            # Each kind in turn, so that a short run has them all.
            name = (*WRONG, *ANYTHING)[i % (len(WRONG) + len(ANYTHING))]
            samples.append((name, 0.0 if name in WRONG else None))
        else:
            number = rng.choice(["7", "8"])
            samples.append((f"say {number}", float(number == "7")))
    return samples


def code_samples(count, share, seed):
    """(completion, expected reward) pairs, a ``share`` of them wrong or hostile."""
    rng = random.Random(seed)
    bad = [rng.random() < share for _ in range(count)]
    return [
        (as_response(BAD_PROGRAMS[i % len(BAD_PROGRAMS)] if hostile else GOOD_PROGRAM), float(not hostile))
        for i, hostile in enumerate(bad)
    ]
