import math
from pathlib import Path

from headrace.metrics.evaluation import Example
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.eval_log import Compute, EvalLog, read_evals, read_examples

EXAMPLE = Example(prompt_id="p1", prompt="1+1=", completion="#2 f\u00fcr\u2028\x85 \ud800", answer="2", passed=True)


def log_one(log: EvalLog, version: int, mean: float) -> dict[str, object]:
    compute = Compute(device_s=2.0, flops=1e9, tokens_generated=10, tokens_trained=8, steps=version)
    stats = {"mean_at_n": mean, "pass_at_k": {"1": mean, "2": math.nan}, "standard_error": math.nan}
    return log.log(version, stats, temperature=0.6, compute=compute, examples=[EXAMPLE])


def test_a_line_holds_figures_compute_and_examples(tmp_path: Path) -> None:
    log = EvalLog(tmp_path, clock=lambda: 3.0)
    written = log_one(log, 4, 0.5)
    log.close()
    (row,) = read_evals(tmp_path)
    assert row == written
    assert (row["version"], row["step"], row["attempt"], row["temperature"], row["time_s"]) == (4, 4, 1, 0.6, 0.0)
    assert row["pass_at_k"] == {"1": 0.5, "2": None}
    assert row["compute"] == {
        "device_s": 2.0, "flops": 1e9, "tokens_generated": 10, "tokens_trained": 8, "steps": 4
    }  # fmt: skip
    assert read_examples(row) == [EXAMPLE]


def test_superseded_evaluations_are_skipped_and_late_ones_sorted(tmp_path: Path) -> None:
    first = EvalLog(tmp_path, attempt=begin_attempt(tmp_path))
    for version, mean in ((0, 0.1), (30, 0.3), (20, 0.2)):
        log_one(first, version, mean)
    second = EvalLog(tmp_path, attempt=begin_attempt(tmp_path, 20))
    log_one(second, 30, 0.4)
    assert [(row["version"], row["mean_at_n"]) for row in read_evals(tmp_path)] == [(0, 0.1), (20, 0.2), (30, 0.4)]
