"""What must hold of every simulated run, whatever the scenario: violations in words, none when all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from headrace.pipeline.parts import Trained
from headrace.pipeline.sim.simulation import Outcome
from headrace.records import Prompt


def violations(*parts: Outcome) -> list[str]:
    """Check one run; several outcomes are its parts, each resumed from a checkpoint of the one before."""
    found = [f"a role broke: {error!r}" for part in parts for error in part.role_errors]
    for part in parts:
        for trained in part.history.steps:
            found += _lag(part, trained)
        found += _buffers(part) + _evaluations(part)
    found += _steps(parts) + _groups(parts) + _end(parts[-1])
    return found


def max_lag_trained(*parts: Outcome) -> int:
    return max((lag for part in parts for lag in part.history.lags), default=0)


def timeline(parts: Sequence[Outcome]) -> list[Trained]:
    """The steps that count: what a part trained beyond the checkpoint the next one started from is superseded."""
    kept: list[Trained] = []
    for part in parts:
        if part.history.steps:
            start = part.history.steps[0].batch.step
            kept = [t for t in kept if t.batch.step < start]
        kept += part.history.steps
    return kept


def position_of(prompt: Prompt, num_prompts: int) -> int:
    return prompt.epoch * num_prompts + prompt.index


def _lag(part: Outcome, trained: Trained) -> list[str]:
    """Token by token, from the arrays themselves."""
    step, found = trained.batch.step, []
    bound = part.scenario.lag_schedule()(step)
    if trained.batch.max_lag != bound:
        found.append(f"step {step} carries the bound {trained.batch.max_lag}, not {bound}")
    for group in trained.groups:
        for rollout in group.rollouts:
            lags = step - rollout.policy_version[rollout.trainable]
            if len(lags) and (lags.max() > bound or lags.min() < 0):
                found.append(
                    f"step {step} trained {rollout.rollout_id} at lags {lags.min()} to {lags.max()} of {bound}"
                )
    return found


def _buffers(part: Outcome) -> list[str]:
    most, bound = part.history.most_outstanding, part.scenario.outstanding_bound
    return [f"{most} groups were outstanding, {bound} may be"] if most > bound else []


def _evaluations(part: Outcome) -> list[str]:
    return [
        f"the evaluation of version {evaluation.version} holds tokens of others"
        for _, evaluation in part.history.evaluations
        for group in evaluation.groups
        for rollout in group.rollouts
        if (rollout.policy_version[rollout.trainable] != evaluation.version).any()
    ]


def _steps(parts: Sequence[Outcome]) -> list[str]:
    """Steps follow each other from 0, and each consumes a full batch."""
    found, steps = [], timeline(parts)
    if [t.batch.step for t in steps] != list(range(len(steps))):
        found.append(f"steps were trained in the order {[t.batch.step for t in steps]}")
    size = parts[0].scenario.groups_per_step
    found += [f"step {t.batch.step} had {len(t.groups)} groups" for t in steps if len(t.groups) != size]
    return found


def _groups(parts: Sequence[Outcome]) -> list[str]:
    """Every group admitted is trained, dropped, or still outstanding; its prompt is the one of its turn."""
    found, steps = [], timeline(parts)
    trained = Counter(g.admission for t in steps for g in t.groups)
    dropped = Counter(d.entry.admission for p in parts for d in p.history.drops)
    left = {e.admission: e for e in parts[-1].left}
    admitted, most = parts[-1].num_admitted, parts[0].scenario.max_uses
    found += [f"group {a} was trained {n} times" for a, n in trained.items() if n > most]
    found += [f"group {a} was dropped {n} times" for a, n in dropped.items() if n > 1 and len(parts) == 1]
    if len(parts) == 1:
        found += [f"group {a} was trained and dropped" for a in trained.keys() & dropped.keys()]
    found += [
        f"group {a} was trained {trained[a]} times and is outstanding with {entry.uses} uses"
        for a, entry in left.items()
        if entry.uses != trained[a] or entry.uses >= most
    ]
    found += [f"group {a} got lost" for a in range(admitted) if a not in trained and a not in dropped and a not in left]
    found += [f"group {a} was never admitted" for a in (trained.keys() | left.keys()) if a >= admitted]
    return found + _uses(steps) + _prompts(parts)


def _uses(steps: Sequence[Trained]) -> list[str]:
    """No step trains a group twice, and each says rightly how often its groups had trained."""
    found, before = [], Counter[int]()
    for t in steps:
        admissions = [g.admission for g in t.groups]
        if len(set(admissions)) < len(admissions):
            found.append(f"step {t.batch.step} trained {admissions}")
        if list(t.uses) != [before[a] for a in admissions]:
            found.append(f"step {t.batch.step} says its groups had {t.uses} uses; they had {before}")
        before.update(admissions)
    return found


def _prompts(parts: Sequence[Outcome]) -> list[str]:
    """Turn i holds position i of the source; with prompts that retire, turns hold ever later positions."""
    scenario = parts[0].scenario
    at = {g.admission: position_of(g.prompt, scenario.num_prompts) for t in timeline(parts) for g in t.groups}
    at |= {e.admission: position_of(e.prompt, scenario.num_prompts) for e in parts[-1].left}
    if not scenario.retire_after:
        return [f"group {a} holds the prompt of position {at[a]}" for a in at if at[a] != a]
    ordered = sorted(at)
    return [
        f"group {b} holds position {at[b]}, not beyond group {a}'s {at[a]}"
        for a, b in pairwise(ordered)
        if at[b] <= at[a]
    ]


def _end(last: Outcome) -> list[str]:
    if last.finished and last.version != last.scenario.steps:
        return [f"the run finished at version {last.version} of {last.scenario.steps}"]
    if last.error is None and not last.finished and last.scenario.stop_at_s is None:
        return ["the run ended early without an error"]
    return []
