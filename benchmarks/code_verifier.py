"""How many small programs a second the code verifier judges, beside starting ``python`` for each test.

    .venv/bin/python benchmarks/code_verifier.py --json OUT

Both sides judge the same programs (one test by standard input, then three by calls) with two workers; they alternate,
the figures are medians over rounds. The other side is ``subprocess.run`` with a time limit and no isolation at all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from headrace.verifiers.code_block import as_response
from headrace.verifiers.pool import VerifierPool
from headrace.verifiers.sandbox.levels import LEVELS, probe
from headrace.verifiers.spec import VerifierSpec

WORKERS = 2
SCRIPT = "n = int(input())\nprint(sum(i * i for i in range(n)))"
FUNCTION = "def squares(n):\n    return [i * i for i in range(n)]"
SCRIPT_ROW: dict[str, Any] = {"tests": [{"stdin": "10\n", "stdout": "285\n"}]}
FUNCTION_ROW: dict[str, Any] = {
    "tests": [{"call": "squares", "args": [n], "expect": [i * i for i in range(n)]} for n in (0, 3, 10)]
}


def naive(programs: int, *, calls: bool) -> float:
    """Programs a second with a fresh interpreter for each test."""

    def judge(_: int) -> bool:
        if not calls:
            done = subprocess.run([sys.executable, "-c", SCRIPT], input=b"10\n", capture_output=True, timeout=5)
            return done.stdout == b"285\n"
        sources = [f"{FUNCTION}\nprint(squares({test['args'][0]}))" for test in FUNCTION_ROW["tests"]]
        outputs = [subprocess.run([sys.executable, "-c", s], capture_output=True, timeout=5).stdout for s in sources]
        return all(o.decode().strip() == str(t["expect"]) for o, t in zip(outputs, FUNCTION_ROW["tests"], strict=True))

    begun = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        assert all(pool.map(judge, range(programs)))
    return programs / (time.perf_counter() - begun)


async def sandboxed(pool: VerifierPool, programs: int, *, calls: bool) -> float:
    """Programs a second through the pool."""
    code, row = (FUNCTION, FUNCTION_ROW) if calls else (SCRIPT, SCRIPT_ROW)
    begun = time.perf_counter()
    verdicts = await asyncio.gather(*(pool.judge(as_response(code), row) for _ in range(programs)))
    assert all(verdict.passed for verdict in verdicts)
    return programs / (time.perf_counter() - begun)


async def measure(level: str, rounds: int, programs: int) -> dict[str, float]:
    """Medians of both sides and their ratios at one level."""
    found: dict[str, list[float]] = {"script": [], "calls": [], "naive_script": [], "naive_calls": []}
    spec = VerifierSpec("code", answer_column="tests", options={"isolation": level})
    async with VerifierPool(spec, WORKERS, 30.0) as pool:
        await sandboxed(pool, 20, calls=False)
        for _ in range(rounds):
            for name, calls in (("script", False), ("calls", True)):
                found[f"naive_{name}"].append(naive(programs // 4, calls=calls))
                found[name].append(await sandboxed(pool, programs, calls=calls))
    rates = {f"{name}_per_s": statistics.median(values) for name, values in found.items()}
    ratios = {f"{name}_ratio": rates[f"{name}_per_s"] / rates[f"naive_{name}_per_s"] for name in ("script", "calls")}
    return {**rates, **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description="Programs a second, sandboxed, against a bare subprocess.")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=100)
    options = parser.parse_args()
    report: dict[str, Any] = {"workers": WORKERS, "rounds": options.rounds, "programs": options.programs}
    for level in LEVELS:
        fault = probe(level).fault
        report[level] = {"fault": fault} if fault else asyncio.run(measure(level, options.rounds, options.programs))
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
