"""Run every benchmark one after the other and collect their JSON under ``build/bench``.

    .venv/bin/python benchmarks/run_all.py [NAME ...]

They measure ratios, so nothing else should be running. ``vs_trl`` needs its own environment (``make venv-trl``) and is
left out when that is not there. All together take more than an hour on two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAMES = (
    "verifier_pool",
    "code_verifier",
    "lm_head",
    "loss_cost",
    "engine",
    "scaling_fit",
    "head_precision",
    "recipes",
    "async_vs_sync",
    "vs_trl",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every benchmark.")
    parser.add_argument("names", nargs="*", default=list(NAMES), help=f"which ones (default: {' '.join(NAMES)})")
    out = ROOT / "build" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in parser.parse_args().names:
        if name == "vs_trl" and not (ROOT / ".venv-trl").is_dir():
            print("vs_trl: left out, run `make venv-trl` first")
            continue
        started = time.monotonic()
        print(f"{name} ...", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(out / f"{name}.json")]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        print(f"{name}: exit code {code} after {time.monotonic() - started:.0f} s; {out / f'{name}.json'}", flush=True)
        failed += [name] if code else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
