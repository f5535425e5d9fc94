"""What one held-out evaluation says: one group a prompt in, figures out. Pure.

Figures of ``evaluation_stats`` (all plain Python numbers or flat mappings; NaN where undefined):

=====================  ==============================================================================================
num_prompts            prompts evaluated
samples_per_prompt     completions of the prompt that has most
num_completions        completions in all
mean_at_n              mean over prompts of the share that passed: the held-out pass rate
pass_at_k              {"1": .., "2": .., "4": ..}, k in powers of two up to samples_per_prompt
standard_error         of mean_at_n, over prompts
length_mean/p50/p99    tokens the policy wrote
truncated_frac         share of completions that ran into the token limit
distinct_n             {"1": .., "2": .., "3": ..}: over the token ids of one prompt's completions, mean over prompts
unique_answers         mean over prompts of the number of different answers among a prompt's completions
unjudged_frac          share of completions the verifier could not judge; they count in no pass rate
=====================  ==============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headrace.metrics.estimators import (
    distinct_n,
    length_stats,
    mean_at_n,
    mean_pass_at_k,
    powers_of_two,
    standard_error,
)
from headrace.records import Group, Rollout, completion_ids

NGRAMS = (1, 2, 3)
MAX_EXAMPLE_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One completion kept for people to read, as text."""

    prompt_id: str
    prompt: str
    completion: str
    answer: str  # the gold answer
    passed: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluation_stats(groups: Sequence[Group]) -> dict[str, Any]:
    """The figures above for one evaluation; each group holds all completions of one held-out prompt."""
    rollouts = [r for g in groups for r in g.rollouts]
    counts = [pass_counts(g) for g in groups]
    samples = max((len(g.rollouts) for g in groups), default=0)
    return {
        "num_prompts": len(groups),
        "samples_per_prompt": samples,
        "num_completions": len(rollouts),
        "mean_at_n": mean_at_n(counts),
        "pass_at_k": {str(k): mean_pass_at_k(counts, k) for k in powers_of_two(samples)},
        "standard_error": standard_error(counts),
        **length_stats([r.num_trainable for r in rollouts]),
        "truncated_frac": _share(r.finish_reason == "length" for r in rollouts),
        "distinct_n": {str(n): _mean(_group_distinct(g, n) for g in groups) for n in NGRAMS},
        "unique_answers": _mean(float(len(_answers(g))) for g in groups),
        "unjudged_frac": _share(not _judged(r) for r in rollouts),
    }


def pass_counts(group: Group) -> tuple[int, int]:
    """(judged completions, completions that passed) of one prompt."""
    verdicts = [r.verdict for r in group.rollouts if r.verdict is not None and r.verdict.judged]
    return len(verdicts), sum(v.passed for v in verdicts)


def examples(
    groups: Sequence[Group], decode: Callable[[Sequence[int]], str], *, answer_key: str = "answer", limit: int = 8
) -> list[Example]:
    """The first completion of the first ``limit`` prompts (by prompt id, so that two evaluations show the same ones).

    ``decode`` turns completion token ids into text; ``answer_key`` names the gold answer's column of the prompt's row.
    """
    shown = sorted((g for g in groups if g.rollouts), key=lambda g: g.prompt.prompt_id)[:limit]
    return [
        Example(
            prompt_id=g.prompt.prompt_id,
            prompt=g.prompt.text[-MAX_EXAMPLE_CHARS:],
            completion=decode(completion_ids(g.rollouts[0]))[:MAX_EXAMPLE_CHARS],
            answer=str(g.prompt.row.get(answer_key, "")),
            passed=_passed(g.rollouts[0]),
        )
        for g in shown
    ]


def _judged(rollout: Rollout) -> bool:
    return rollout.verdict is not None and rollout.verdict.judged


def _passed(rollout: Rollout) -> bool:
    return rollout.verdict is not None and rollout.verdict.passed


def _answers(group: Group) -> set[str]:
    """Different answers the verifier read; a completion without one adds none."""
    return {r.verdict.answer for r in group.rollouts if r.verdict is not None and r.verdict.answer is not None}


def _group_distinct(group: Group, n: int) -> float:
    return distinct_n([completion_ids(r) for r in group.rollouts], n)


def _share(flags: Iterable[bool]) -> float:
    return _mean(float(f) for f in flags)


def _mean(values: Iterable[float]) -> float:
    """Mean of the values that are defined; NaN when none is."""
    defined = [v for v in values if not math.isnan(v)]
    return float(np.mean(defined)) if defined else math.nan
