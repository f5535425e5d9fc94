"""Programs that try to be called right without solving anything. Each is wrong at every level and leaves nothing."""

import os
import tempfile
import time

import pytest

from headrace.verifiers.code import CodeOptions, CodeVerifier
from headrace.verifiers.code_block import as_response
from headrace.verifiers.sandbox.levels import LEVELS, probe
from headrace.verifiers.sandbox.session import Limits

MARK = "headrace-attack-was-here"
CALL = {"tests": [{"call": "half", "args": [5], "expect": 2.5}]}
ASSERT = {"tests": [{"assert": "assert half(5) == 2.5"}]}
CLOSE = {"tests": [{"assert": "assert abs(half(5) - 2.5) <= 1e-6"}]}
STDIN = {"tests": [{"stdin": "5\n", "stdout": "2.5\n"}]}

# Name -> (program, row, part of the reason).
ATTACKS = {
    "object equal to everything": (
        "class E:\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __hash__ = None\n"
        "half = lambda x: E()",
        ASSERT,
        "a value of type E",
    ),
    "float that subtracts to nothing": (
        "class F(float):\n    __sub__ = __rsub__ = lambda s, o: F(0)\n    __abs__ = lambda s: 0.0\n"
        "half = lambda x: F(99)",
        CLOSE,
        "a value of type F",
    ),
    "equal object inside a list": (
        "class E:\n    __eq__ = lambda s, o: True\npair = lambda a, b: [E(), E()]",
        {"tests": [{"call": "pair", "args": [1, 2], "expect": [1, 2]}]},
        "a value of type E",
    ),
    "text subclass": (
        "class S(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\nhalf = lambda x: S('no')",
        ASSERT,
        "a value of type S",
    ),
    "type that lies about itself": (
        "class M(type):\n    __module__ = 'collections'\nclass Counter(dict, metaclass=type):\n    pass\n"
        "Counter.__module__ = 'collections'\nCounter.items = lambda s: [('a', 1)]\nhalf = lambda x: Counter(b=1)",
        {"tests": [{"call": "half", "args": [5], "expect": {"a": 1}}]},
        "wrong value",
    ),
    "early exit": ("import sys\nsys.exit(0)", ASSERT, "SystemExit"),
    "exit inside the function": ("def half(x):\n    raise SystemExit(0)", ASSERT, "SystemExit"),
    "hard exit": ("import os\ndef half(x):\n    os._exit(0)", ASSERT, "ended before it returned"),
    "exit handler": (
        "import atexit, os\natexit.register(os._exit, 0)\nimport sys\nsys.exit(0)",
        STDIN,
        "no output",
    ),
    "success message": (
        "print('=== 5 passed ===')\nprint('{\"passed\": true}')\nhalf = lambda x: 0",
        ASSERT,
        "wrong value",
    ),
    "patched builtins": (
        "import builtins, math\nmath.isclose = lambda *a, **k: True\nbuiltins.all = lambda *a: True\n"
        "builtins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\nhalf = lambda x: 9",
        CLOSE,
        "wrong value",
    ),
    "patched modules": (
        "import sys, types, json\njson.dumps = lambda *a, **k: '2.5'\n"
        "for name in list(sys.modules):\n    if 'inside' in name:\n        sys.modules[name] = types.ModuleType(name)\n"
        "half = lambda x: 9",
        ASSERT,
        "wrong value",
    ),
    "harness's own frames": (
        "import sys\nframe = sys._getframe()\nseen = []\n"
        "while frame:\n    seen.append(str(frame.f_locals))\n    frame = frame.f_back\n"
        "half = lambda x: 5 / 2 if str(5 / 2) in ''.join(seen) else 9",
        ASSERT,
        "wrong value",
    ),
    "search of all memory objects": (
        "import gc\ndef half(x):\n    found = [o for o in gc.get_objects() if isinstance(o, dict)]\n"
        "    return 2.5 if any(v == 2.5 for d in found for v in list(d.values()) if type(v) is float) else 9",
        ASSERT,
        "wrong value",
    ),
    "forged result on the pipe": (
        "import os\nfor fd in range(3, 256):\n    try:\n        os.write(fd, b'V[true]')\n"
        "    except OSError:\n        pass\nhalf = lambda x: 9",
        ASSERT,
        "unreadable",
    ),
    "forged result and exit": ("import os\nos.write(3, b'V[true]')\nos._exit(0)", ASSERT, "wrong value"),
    "forged reply of the keeper": (
        "import os, struct\nbody = struct.pack('<BidQQQ', 0, 0, .1, 5, 4, 0) + b'V[2.5' + b'2.5\\n'\n"
        "for fd in (1, 3, 100, 101):\n    try:\n        os.write(fd, struct.pack('<Q', len(body)) + body)\n"
        "    except OSError:\n        pass\nos._exit(0)",
        STDIN,
        "wrong output",
    ),
    "patched exit of the harness": (
        "import os\nos._exit = lambda code: None\nos.write = lambda fd, data: len(data)\nhalf = lambda x: 9",
        ASSERT,
        "wrong value",
    ),
    "exception hook": (
        "import sys\nsys.excepthook = lambda *a: print(2.5)\nraise ValueError",
        STDIN,
        "exit code 1",
    ),
    "right output, then failure": ("print(2.5)\nraise ValueError('no')", STDIN, "exit code 1: ValueError: no"),
    "kill the parent": ("import os\nos.kill(os.getppid(), 9)\nhalf = lambda x: 2.5", ASSERT, "may not do"),
    "kill everybody": ("import os\nos.kill(-1, 9)\nhalf = lambda x: 2.5", ASSERT, "may not do"),
    "kill the group": ("import os\nos.killpg(0, 15)\nhalf = lambda x: 2.5", ASSERT, "may not do"),
    "signal by detour": (
        "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, os.getppid())\nhalf = lambda x: 2.5",
        ASSERT,
        "PermissionError",
    ),
    "fork": ("import os\nos.fork()\nhalf = lambda x: 2.5", ASSERT, "may not do"),
    "fork bomb": (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        ASSERT,
        "may not do",
    ),
    "background process": (
        f"import subprocess\nsubprocess.Popen(['sleep', '600'], env={{'{MARK}': '1'}})\nhalf = lambda x: 2.5",
        ASSERT,
        "may not do",
    ),
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(600)\n    os._exit(0)\nhalf = lambda x: 2.5",
        ASSERT,
        "may not do",
    ),
    "shell": ("import os\nos.system('sleep 600 &')\nhalf = lambda x: 2.5", ASSERT, "may not do"),
    "another program": ("import os\nos.execv('/bin/echo', ['echo', '2.5'])", STDIN, "may not do"),
    "thread bomb": (
        "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,)).start()",
        STDIN,
        "time-out",
    ),
    "endless loop": ("def half(x):\n    while True:\n        pass", ASSERT, "time-out: more than 1 s"),
    "endless loop that ignores signals": (
        "import signal\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
        STDIN,
        "time-out",
    ),
    "sleep": ("import time\ntime.sleep(600)", STDIN, "time-out"),
    "deadlock": ("import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()", STDIN, "time-out"),
    "memory bomb": ("x = []\nwhile True:\n    x.append(bytearray(10**8))", STDIN, "memory: more than 256 MB"),
    "endless output": ("print(2.5)\nwhile True:\n    print('x' * 1000)", STDIN, "more output than 100,000 bytes"),
    "endless errors": ("import sys\nwhile True:\n    sys.stderr.write('x' * 1000)", STDIN, "more output"),
    "endless answer": ("half = lambda x: 'x' * 10**7", ASSERT, "more output"),
    "too deep a value": ("half = lambda x: [half(x - 1)] if x > -200 else []", ASSERT, "more than 100 levels"),
    "value that holds itself": ("a = []\na.append(a)\nhalf = lambda x: a", ASSERT, "more than 100 levels"),
    "big file": (
        "with open('big', 'wb') as file:\n    for _ in range(1000):\n        file.write(bytes(10**6))\nprint(2.5)",
        STDIN,
        "exit code 1: OSError",
    ),
    "crash of the interpreter": ("import ctypes\nctypes.string_at(0)", STDIN, "signal 11"),
    "trace the parent": (
        "import ctypes, os\nif ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0:\n    print(2.5)",
        STDIN,
        "may not do",
    ),
    "memory of the verifier": (
        "import os\nfound = b''\npid = os.getppid()\nwhile pid > 1:\n"
        "    maps = open(f'/proc/{pid}/maps').read()\n    mem = open(f'/proc/{pid}/mem', 'rb')\n    break\nprint(2.5)",
        STDIN,
        "exit code 1",
    ),
    "environment of the verifier": (
        "import os\nprint(open(f'/proc/{os.getppid()}/environ').read())\nprint(2.5)",
        STDIN,
        "exit code 1",
    ),
    "network": (
        "import socket\ns = socket.create_connection(('127.0.0.1', 80), 1)\nprint(2.5)",
        STDIN,
        "exit code 1: PermissionError",
    ),
    "local socket": ("import socket\nsocket.socket(socket.AF_UNIX)\nprint(2.5)", STDIN, "exit code 1: PermissionError"),
    "new namespace": ("import ctypes\nctypes.CDLL(None).unshare(0x10000000)\nprint(0)", STDIN, "wrong output"),
    "anonymous file": ("import os\nos.memfd_create('x')\nprint(2.5)", STDIN, "exit code 1: PermissionError"),
    "reward file": (
        f"open('{tempfile.gettempdir()}/{MARK}', 'w').write('1')\nopen('/reward.txt', 'w').write('1')\nprint(2.5)",
        STDIN,
        "exit code 1",
    ),
    "later run reads what an earlier one left": (
        "import os\nif os.path.exists('seen'):\n    print(2.5)\nopen('seen', 'w').write('1')",
        {"tests": [{"stdin": "5", "stdout": ""}, {"stdin": "5", "stdout": "2.5"}]},
        "no output (test 2 of 2)",
    ),
    "folder that cannot be emptied": (
        "import os\nfor _ in range(300):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n"
        "os.chmod('..', 0)\nos.symlink('/', 'root')",
        STDIN,
        "no output",
    ),
    "no program": ("", STDIN, "the code block is empty"),
    "syntax error": ("def half(x", ASSERT, "SyntaxError"),
    "source that breaks the compiler": ("(" * 5000 + ")" * 5000, STDIN, "exit code 1"),
    "too big a number": ("half = lambda x: 10 ** 100000", ASSERT, "wrong value"),
    "not a number": ("half = lambda x: float('nan')", CALL, "wrong value"),
    "module that reads its input away": ("import sys\nsys.stdin = None\nhalf = None", CALL, "it raised TypeError"),
}


@pytest.fixture(scope="module", params=LEVELS)
def verifier(request):
    if fault := probe(request.param).fault:
        pytest.skip(f"no {request.param} here: {fault}")
    limits = Limits(time_s=1.0, memory_bytes=256 << 20, output_bytes=100_000)
    made = CodeVerifier("tests", CodeOptions(isolation=request.param, limits=limits))
    yield made
    made.close()


def below(root):
    """Process ids of everything that descends from ``root`` now."""
    found = {root}
    for _ in range(10):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) in found and fields[0] != "Z":
                found.add(int(name))
    return found - {root}


def command_lines():
    lines = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                lines.append(file.read())
        except OSError:
            continue
    return lines


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_wrong_and_leaves_nothing(verifier, name):
    program, row, reason = ATTACKS[name]
    verifier(as_response("print(2.5)"), STDIN)  # the sandbox runs
    before = below(os.getpid())
    verdict = verifier(as_response(program), row)
    assert verdict.reward == 0.0
    assert verdict.error is None
    assert reason in verdict.reason
    again = verifier(as_response("import os\nprint(int(input()) / 2, *os.listdir())"), STDIN)
    assert again.reward == 1.0, again.reason  # an honest program right after it
    deadline = time.monotonic() + 5
    while not (after := below(os.getpid())) <= before and "ended" not in verdict.reason:
        assert time.monotonic() < deadline, after - before
        time.sleep(0.02)
    assert not any(b"sleep\x00600" in line for line in command_lines())
    assert not os.path.exists(f"{tempfile.gettempdir()}/{MARK}")
    assert not os.path.exists("/reward.txt")


def test_closing_leaves_no_process_and_no_folder():
    for level in LEVELS:
        if probe(level).fault:
            continue
        before = below(os.getpid()), set(os.listdir(tempfile.gettempdir()))
        verifier = CodeVerifier("tests", CodeOptions(isolation=level))
        assert verifier(as_response("print(2.5)"), STDIN).passed
        verifier.close()
        deadline = time.monotonic() + 5
        while below(os.getpid()) - before[0]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        left = set(os.listdir(tempfile.gettempdir())) - before[1]
        assert not {name for name in left if name.startswith("headrace-code-")}
