"""Benchmarks are run seldom; that they still load is looked at always."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
ELSEWHERE = {"trl_side"}  # needs the other side's environment


def test_every_benchmark_loads():
    names = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in ELSEWHERE)
    assert {"async_vs_sync", "vs_trl", "engine", "lm_head", "recipes"} <= set(names)
    code = "; ".join(f"import {name}" for name in names)
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
