"""Lines of ``evals.jsonl`` of made-up runs."""

import numpy as np

from tests.unit.scaling.curves import N, exact


def eval_row(step, rate, *, compute, n=N, spread=0.1, attempt=1):
    """One evaluation. Within prompts its error is sqrt(spread / n)."""
    costs = {"device_s": compute, "flops": 2.0 * compute, "tokens_trained": 10 * step, "tokens_generated": 12 * step}
    return {
        "version": step, "step": step, "attempt": attempt, "mean_at_n": rate, "num_completions": n,
        "pass_at_k": {"1": rate, "2": rate + spread}, "compute": {**costs, "steps": step}, "examples": [],
    }  # fmt: skip


def curve_rows(last_step, *, seed=0, num_steps=100, total=16_000.0):
    """A run on the first curve of Table 1 that costs ``total`` in ``num_steps``, evaluated every step."""
    steps = np.arange(last_step + 1)
    compute = total * steps / num_steps
    rate = exact(compute)
    scores = np.random.default_rng(seed).normal(rate, np.sqrt(0.1 / N))
    return [eval_row(int(s), float(y), compute=float(c)) for s, y, c in zip(steps, scores, compute)]
