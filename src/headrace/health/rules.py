"""Health rules: pure functions of a window of step metrics (names as in metrics/names.py).

A rule looks at the mean over the window, so that one odd step raises nothing, and is silent when its figure is absent.
``start`` holds the figures at the start of training, for rules that are relative to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from headrace.health.alert import LEVELS, Alert

Metrics = Mapping[str, float]

MIN_STEPS = 5  # in a window; the first steps of a run (empty pipeline, cold caches) say little

MAX_TRUNCATED_FRAC = 0.10  # ScaleRL (arXiv 2510.13786): 10-15 % goes with instability, healthy runs stay below 5 %
MAX_ALL_RIGHT_FRAC = 0.50
MAX_ALL_WRONG_FRAC = 0.50
MIN_ENTROPY_OF_START = 0.20  # relative: a policy over a small vocabulary is normally below 0.1 nats
SOLVED_PASS_RATE = 0.90  # where entropy is low because the answers are known
LEARNT_PASS_RATE = 0.15  # gained since the start: entropy that was spent on learning is no collapse
MAX_VERIFIER_ERROR_FRAC = 0.01
MAX_CLIP_FRAC = 0.50
CLIP_FRACTIONS = (  # no token is in two of them
    "loss/clip_frac_low",
    "loss/clip_frac_high",
    "loss/ratio_capped_frac",
    "loss/ratio_raised_frac",
)
MAX_OUTLIER_FRAC = 0.01  # one success in a group of 16 stands at 3.75, so single tokens above 3 are no fault
MAX_ADVANTAGE = 100.0
WARN_MISMATCH_KL = 0.01  # nats a token; bf16 engines show 1e-3 to 2e-3, fp32 below 1e-6
MAX_MISMATCH_KL = 0.1
MAX_LAG = 12.0  # steps; quality is kept up to about 8
MAX_IDLE_FRAC = 0.60
UNWRITTEN = {"metrics": "lines of metrics", "evals": "evaluations", "rollouts": "completions"}


def check_health(window: Sequence[Metrics], start: Metrics | None = None) -> list[Alert]:
    """Everything the rules find in the last steps' metrics, most serious first; [] for fewer than 5 steps."""
    if len(window) < MIN_STEPS:
        return []
    found = [alert for rule in RULES if (alert := rule(window, start or {})) is not None]
    return sorted(found, key=lambda alert: -LEVELS.index(alert.level))


def window_mean(window: Sequence[Metrics], name: str) -> float | None:
    """Mean of a figure over the steps that have it; None when none has a finite one."""
    values = [float(m[name]) for m in window if m.get(name) is not None and math.isfinite(m[name])]
    return sum(values) / len(values) if values else None


def truncation(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "rollout/truncated_frac")
    if value is None or value <= MAX_TRUNCATED_FRAC:
        return None
    return Alert(
        level="alarm",
        name="truncation",
        evidence=f"{value:.0%} of completions hit the token limit (threshold {MAX_TRUNCATED_FRAC:.0%})",
        cause="Answers do not fit, or the policy learns to ramble; such runs become unstable.",
        fix="Raise sampling.max_completion_tokens, or choose easier prompts.",
    )


def all_right(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "rollout/all_right_frac")
    if value is None or value <= MAX_ALL_RIGHT_FRAC:
        return None
    return Alert(
        level="info",
        name="prompts too easy",
        evidence=f"in {value:.0%} of groups every completion passed (threshold {MAX_ALL_RIGHT_FRAC:.0%})",
        cause="The policy has mastered most prompts; their groups teach nothing.",
        fix="Choose harder prompts, or end the run.",
    )


def all_wrong(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "rollout/all_wrong_frac")
    if value is None or value <= MAX_ALL_WRONG_FRAC:
        return None
    return Alert(
        level="warning",
        name="prompts too hard",
        evidence=f"in {value:.0%} of groups no completion passed (threshold {MAX_ALL_WRONG_FRAC:.0%})",
        cause="Most prompts are beyond the policy, or the verifier cannot read its answers.",
        fix="Look at completions and reasons in rollouts/, choose easier prompts, or raise batch.group_size.",
    )


def entropy(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    now, before = window_mean(window, "loss/entropy"), start.get("loss/entropy")
    if now is None or before is None or before <= 0 or now >= MIN_ENTROPY_OF_START * before:
        return None
    pass_rate = window_mean(window, "reward/pass_rate")
    solved = pass_rate is not None and pass_rate >= SOLVED_PASS_RATE
    gained = 0.0 if pass_rate is None else pass_rate - start.get("reward/pass_rate", pass_rate)
    return Alert(
        level="info" if solved or gained >= LEARNT_PASS_RATE else "alarm",
        name="entropy",
        evidence=f"entropy is {now:.3g} nats, {now / before:.0%} of {before:.3g} at the start "
        f"(threshold {MIN_ENTROPY_OF_START:.0%})",
        cause=_entropy_cause(solved=solved, gained=gained),
        fix="End the run, or choose harder prompts." if solved else "Lower optimizer.lr, or raise clip_high.",
    )


def _entropy_cause(*, solved: bool, gained: float) -> str:
    if solved:
        return "The task is nearly solved."
    if gained >= LEARNT_PASS_RATE:
        return f"The policy settles on what works: pass rate {gained:+.2f} since the start."
    return "The policy stopped exploring before it found the answers."


def verifier_errors(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "verifier/error_frac")
    if value is None or value <= MAX_VERIFIER_ERROR_FRAC:
        return None
    return Alert(
        level="alarm",
        name="verifier errors",
        evidence=f"{value:.1%} of verifications failed (threshold {MAX_VERIFIER_ERROR_FRAC:.0%})",
        cause="The verifier raises or times out; those completions train nothing.",
        fix="Read the column 'error' in rollouts/, then repair the verifier or raise reward.time_limit_s.",
    )


def clipping(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    shares = [window_mean(window, name) for name in CLIP_FRACTIONS]
    value = sum(share for share in shares if share is not None)
    if value <= MAX_CLIP_FRAC:
        return None
    return Alert(
        level="alarm",
        name="clipping",
        evidence=f"{value:.0%} of tokens are clipped (threshold {MAX_CLIP_FRAC:.0%})",
        cause="The policy moves further between sampling and training than the clip range allows.",
        fix="Lower optimizer.lr or async.max_lag, or widen the clip range.",
    )


def outliers(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value, pass_rate = window_mean(window, "loss/advantage_outlier_frac"), window_mean(window, "reward/pass_rate")
    solved = pass_rate is not None and pass_rate >= SOLVED_PASS_RATE  # the few failures then stand far from the mean
    if value is None or value <= MAX_OUTLIER_FRAC or solved:
        return None
    return Alert(
        level="warning",
        name="advantage outliers",
        evidence=f"{value:.1%} of tokens have an absolute advantage above 3 (threshold {MAX_OUTLIER_FRAC:.0%})",
        cause="A few rollouts outweigh the rest: lone successes in large groups, or rewards of very uneven size.",
        fix="Choose easier prompts, bound the reward, or take algorithm.advantage.scale=batch.",
    )


def advantage_size(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "loss/advantage_abs_max")
    if value is None or value <= MAX_ADVANTAGE:
        return None
    return Alert(
        level="alarm",
        name="advantage size",
        evidence=f"the largest advantage is {value:.3g} (threshold {MAX_ADVANTAGE:.0f})",
        cause="Rewards are unbounded, or are divided by a standard deviation near 0.",
        fix="Bound the reward, scale or whiten the advantages, or raise algorithm.zero_variance_tolerance.",
    )


def mismatch(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    mean = window_mean(window, "loss/mismatch_kl")
    value = abs(mean or 0.0)  # an estimate from samples: it may fall below 0
    if value <= WARN_MISMATCH_KL:
        return None
    return Alert(
        level="alarm" if value > MAX_MISMATCH_KL else "warning",
        name="engine and trainer disagree",
        evidence=f"KL of {value:.3g} nats a token on the same weights (threshold {WARN_MISMATCH_KL})",
        cause="Sampling and training compute different probabilities: dtype, head precision, or stale weights.",
        fix="Use the same model.dtype on both sides.",
    )


def lag(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "rollout/lag_max")
    if value is None or value <= MAX_LAG:
        return None
    return Alert(
        level="warning",
        name="lag",
        evidence=f"the oldest trained tokens are {value:.1f} steps old (threshold {MAX_LAG:.0f})",
        cause="Quality is kept up to a lag of about 8; above 12 some kinds of tasks lose.",
        fix="Lower async.max_lag, or speed up generation.",
    )


def trainer_idle(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "trainer/idle_frac")
    if value is None or value <= MAX_IDLE_FRAC:
        return None
    return Alert(
        level="warning",
        name="trainer idle",
        evidence=f"the trainer waits {value:.0%} of the time (threshold {MAX_IDLE_FRAC:.0%})",
        cause="Generation, or verification, is the bottleneck.",
        fix="Give generator.num_generators, generator.num_slots or generator.threads more, the trainer less.",
    )


def generator_idle(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    value = window_mean(window, "generator/idle_frac")
    if value is None or value <= MAX_IDLE_FRAC:
        return None
    return Alert(
        level="warning",
        name="generator idle",
        evidence=f"generators have nothing to decode {value:.0%} of the time (threshold {MAX_IDLE_FRAC:.0%})",
        cause="Training is the bottleneck, or the lag bound leaves nothing to start.",
        fix="Give the trainer more threads, or raise async.max_lag.",
    )


def disk_full(window: Sequence[Metrics], start: Metrics) -> Alert | None:
    counts = [(window[-1].get(f"tracking/num_unwritten_{kind}", 0.0), what) for kind, what in UNWRITTEN.items()]
    found = [f"{count:.0f} {what}" for count, what in counts if count]
    if not found:
        return None
    return Alert(
        level="warning",
        name="disk full",
        evidence=f"not written for want of space: {', '.join(found)}",
        cause="The run goes on, but its record has gaps, and checkpoints will fail as well.",
        fix="Free some space; lines that wait are then written, completions that were given up are not.",
    )


RULES: tuple[Callable[[Sequence[Metrics], Metrics], Alert | None], ...] = (
    truncation,
    all_right,
    all_wrong,
    entropy,
    verifier_errors,
    clipping,
    outliers,
    advantage_size,
    mismatch,
    lag,
    trainer_idle,
    generator_idle,
    disk_full,
)
