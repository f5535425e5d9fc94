"""What a verdict costs through the verifier's process, beside calling the verifier directly.

    .venv/bin/python benchmarks/verifier_pool.py --json OUT

256 completions are judged at once, as after a step of the demo; both sides alternate, medians over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

from headrace.config.load import load_recipe
from headrace.verifiers.pool import VerifierPool
from headrace.verifiers.spec import make_verifier, spec_of

COMPLETION, ROW, BATCH = "7+5=12 4+8+1=13 3+1=4#432", {"prompt": "347+85=", "answer": "432"}, 256


async def measure(rounds: int) -> dict[str, float]:
    """Milliseconds a verdict on both sides, and their difference."""
    spec = spec_of(load_recipe("demo"))
    verifier = make_verifier(spec)
    direct, pooled = [], []
    async with VerifierPool(spec, num_workers=1) as pool:
        await pool.judge(COMPLETION, ROW)
        for _ in range(rounds):
            begun = time.perf_counter()
            for _ in range(BATCH):
                verifier(COMPLETION, ROW)
            direct.append((time.perf_counter() - begun) * 1e3 / BATCH)
            begun = time.perf_counter()
            await asyncio.gather(*(pool.judge(COMPLETION, ROW) for _ in range(BATCH)))
            pooled.append((time.perf_counter() - begun) * 1e3 / BATCH)
    ours, theirs = statistics.median(pooled), statistics.median(direct)
    return {"pool_ms": ours, "direct_ms": theirs, "overhead_ms": ours - theirs, "rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description="A verdict through the pool against a direct call.")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    report = asyncio.run(measure(options.rounds))
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
