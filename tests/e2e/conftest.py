"""Real runs, started as a user starts them: the command line in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.runs import Started


@pytest.fixture
def headrace(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start ``headrace ARGUMENTS --runs TMP``; whatever is left is killed at the end."""
    started: list[Started] = []

    def start(*arguments: str, runs: Path | None = None) -> Started:
        folder = runs or tmp_path / "runs"
        command = [sys.executable, "-m", "headrace.cli.main", *arguments]
        if arguments[0] in ("demo", "train"):
            command += ["--runs", str(folder)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
            start_new_session=True,
        )
        started.append(Started(process, folder))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


@pytest.fixture
def run_headrace(headrace: Callable[..., Started]) -> Callable[..., tuple[int, str, Path]]:
    """Run a command to its end: (exit code, output, folder of run folders)."""

    def run(*arguments: str, runs: Path | None = None, timeout_s: float = 240.0) -> tuple[int, str, Path]:
        started = headrace(*arguments, runs=runs)
        output, _ = started.process.communicate(timeout=timeout_s)
        return started.process.returncode, output, started.runs

    return run
