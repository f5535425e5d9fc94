"""The life of a process that runs a program under test: limits on, descriptors away, program, result, end.

From the first line of the program on, nothing in this process can be trusted. It holds nothing worth having: the
program, what one test feeds it, and a pipe for what it answers.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import types
from typing import Any, NoReturn

from . import seccomp
from .libc import follow_parent
from .values import NotPlainError, to_json

RESULT_FD = 3
MAX_FILES = 64
_STACK_BYTES = 128 << 20
FILE_NAME = "solution.py"
_exit, _write = os._exit, os.write  # programs like to replace these


def live(request: dict[str, Any], fds: tuple[int, int, int, int], parent: int) -> NoReturn:
    """Never returns. ``fds``: standard input, output, error, result. ``request``: see ``session.Request``."""
    try:
        _settle(request, fds, parent)
    except BaseException as error:
        _write(RESULT_FD, b"F" + f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        _exit(70)
    _write(RESULT_FD, b"R")  # from here on, whatever goes wrong is the program's doing
    code = 1
    try:
        code = _script(request) if request["mode"] == "script" else _answers(request)
    finally:
        _exit(code)


def _settle(request: dict[str, Any], fds: tuple[int, int, int, int], parent: int) -> None:
    high = [os.dup2(fd, 200 + i) for i, fd in enumerate(fds)]
    for place, fd in enumerate(high):
        os.dup2(fd, place)
    os.closerange(4, 1024)
    follow_parent(parent)
    os.setsid()
    os.chdir(request["folder"])
    os.umask(0o077)
    os.environ.clear()
    os.environ.update(PATH="/usr/bin:/bin", HOME=request["folder"], TMPDIR=request["folder"], LANG="C.UTF-8")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGPIPE else signal.SIG_IGN)
    _limit(request)
    _streams()
    seccomp.install()


def _limit(request: dict[str, Any]) -> None:
    memory, seconds = request["memory_bytes"], int(request["time_s"]) + 2
    for name, value in (
        ("RLIMIT_AS", memory),
        ("RLIMIT_CPU", seconds),
        ("RLIMIT_FSIZE", request["file_bytes"]),
        ("RLIMIT_NOFILE", MAX_FILES),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_STACK", min(_STACK_BYTES, memory)),
        ("RLIMIT_MEMLOCK", 0),
        ("RLIMIT_MSGQUEUE", 0),
        ("RLIMIT_NICE", 0),
        ("RLIMIT_RTPRIO", 0),
    ):
        number = getattr(resource, name, None)
        if number is None:
            continue
        hard = resource.getrlimit(number)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (least, least))


def _streams() -> None:
    """Fresh text streams on the real descriptors: ``input``, ``sys.stdin.buffer`` and ``open(0)`` share one place."""
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        options: dict[str, Any] = {"errors": "backslashreplace"} if name == "stderr" else {"errors": "surrogateescape"}
        stream = open(fd, mode, encoding="utf-8", closefd=False, **options)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = [FILE_NAME]


def _run_program(request: dict[str, Any], name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules[name] = module
    exec(compile(request["code"], FILE_NAME, "exec", dont_inherit=True), module.__dict__)
    return module


def _script(request: dict[str, Any]) -> int:
    """The program as a script, as ``python solution.py`` would run it; the exit code."""
    code = 0
    try:
        _run_program(request, "__main__")
    except BaseException as error:
        code = _exit_code(error)
    return max(code, _finish()) if code >= 0 else code


def _finish() -> int:
    """What an interpreter does at its end: wait for threads, exit handlers, flush."""
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()  # type: ignore[attr-defined]
        if (atexit := sys.modules.get("atexit")) is not None:
            atexit._run_exitfuncs()  # type: ignore[attr-defined]
        sys.stdout.flush()
    except BaseException as error:
        return _exit_code(error)
    return 0


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        value = error.code
        if value is None or isinstance(value, int):
            return (value or 0) & 0xFF
        print(value, file=sys.stderr)
    else:
        _tell(error)
    sys.stderr.flush()
    return 1


def _tell(error: BaseException) -> None:
    _write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace")[:500])


def _answers(request: dict[str, Any]) -> int:
    """The values of the request's expressions in the program's module, or what it raised; then the end, at once."""
    try:
        names = _run_program(request, "solution").__dict__
        answers = [_answer(names, question) for question in request["questions"]]
        text = b"V[" + b",".join(answers) + b"]"
    except NotPlainError as error:
        text = b"N" + str(error).encode("utf-8", "replace")[:200]
    except BaseException as error:
        text = b"E" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:500]
    sys.stdout.flush()
    view = memoryview(text)
    while view:
        view = view[_write(RESULT_FD, view) :]
    return 0


def _answer(names: dict[str, Any], question: tuple[str, list[Any] | None]) -> bytes:
    """``(source, None)`` is an expression, ``(source, arguments)`` a callable's name and what it is called with; a
    source that begins with 'assert' is a statement whose success is the value True."""
    source, arguments = question
    if source.startswith("\n"):
        exec(compile(source, "test.py", "exec", dont_inherit=True), names)
        return b"true"
    value = eval(compile(source, "test.py", "eval", dont_inherit=True), names)
    if arguments is not None:
        value = value(*arguments)
    return to_json(value).encode("ascii")
