"""Time and peak memory of the tiled LM head against full logits: forward and backward of log-probabilities.

    .venv/bin/python benchmarks/lm_head.py --json out.json

Every variant runs in processes of its own; processor time is the figure to trust on a busy machine. Memory is the peak
resident set over what stood before the measured pass (hidden states and head weight do, both gradients do not), with
the kernel's high-water mark reset in between.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIANTS = ("full_float32", "tiled_float32", "full_bfloat16", "tiled_bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=49_152)
    parser.add_argument("--hidden", type=int, default=576)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--repeats", type=int, default=3, help="processes per variant, alternating; medians are reported"
    )
    parser.add_argument("--one", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options)))
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for _ in range(options.repeats):
        for name in VARIANTS:
            runs[name].append(in_process(name, options))
            print(f"{name}: " + ", ".join(f"{k} {v:.2f}" for k, v in runs[name][-1].items()), file=sys.stderr)
    report = summarise(runs, options)
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def in_process(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Run one variant in a fresh process and read its figures."""
    sizes = [f"--{key}={getattr(options, key)}" for key in ("tokens", "vocab", "hidden", "threads")]
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads)}
    command = [sys.executable, __file__, "--one", name, *sizes]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Wall time, processor time and peak memory of one forward and backward pass."""
    import torch

    torch.set_num_threads(options.threads)
    name, dtype = options.one.split("_")
    generator = torch.Generator().manual_seed(0)
    kind = getattr(torch, dtype)
    hidden = torch.randn(options.tokens, options.hidden, generator=generator).to(kind).requires_grad_()
    weight = (torch.randn(options.vocab, options.hidden, generator=generator) / 24).to(kind).requires_grad_()
    target = torch.randint(options.vocab, (options.tokens,), generator=generator)
    run: Callable[..., Any] = full_logits if name == "full" else tiled
    run(hidden[:8].detach().requires_grad_(), weight[:64].detach().requires_grad_(), target[:8] % 64)  # libraries load
    before = reset_peak()
    begun, begun_cpu = time.perf_counter(), time.process_time()
    run(hidden, weight, target)
    wall, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    return {"time_s": wall, "cpu_s": cpu, "peak_mb": high_water() - before}


def full_logits(hidden: Any, weight: Any, target: Any) -> None:
    """The usual way: float32 logits of all tokens, log-softmax, gather; entropy without gradient."""
    import torch

    logprobs = (hidden.float() @ weight.float().t()).log_softmax(-1)
    with torch.no_grad():
        torch.cat([-(part.exp() * part).sum(-1) for part in logprobs.split(512)])
    logprobs.gather(1, target[:, None]).sum().backward()


def tiled(hidden: Any, weight: Any, target: Any) -> None:
    """Headrace's head."""
    from headrace.models.lm_head import head_logprobs

    head_logprobs(hidden, weight, target).logprob.sum().backward()


def reset_peak() -> float:
    """Set the process's high-water mark back to what is resident now; returns that, in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return high_water()


def high_water() -> float:
    """Peak resident set in MB since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def summarise(runs: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> dict[str, Any]:
    """Medians by variant, and tiled over full for each dtype of the weight."""
    report: dict[str, Any] = {key: getattr(options, key) for key in ("tokens", "vocab", "hidden", "threads", "repeats")}
    for name, figures in runs.items():
        report[name] = {key: statistics.median(f[key] for f in figures) for key in figures[0]}
    for dtype in ("float32", "bfloat16"):
        tiled_run, full_run = report[f"tiled_{dtype}"], report[f"full_{dtype}"]
        report[f"time_ratio_{dtype}"] = tiled_run["time_s"] / full_run["time_s"]
        report[f"cpu_ratio_{dtype}"] = tiled_run["cpu_s"] / full_run["cpu_s"]
        report[f"memory_ratio_{dtype}"] = tiled_run["peak_mb"] / full_run["peak_mb"]
    return report


if __name__ == "__main__":
    main()
