"""What must hold of every simulated run, whatever the scenario: violations in words, none when all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.pipeline.parts import Trained
from headrace.pipeline.sim.simulation import Outcome
from headrace.records import Group


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


def position_of(group: Group, num_prompts: int) -> int:
    return group.prompt.epoch * num_prompts + group.prompt.index


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
    """Every group admitted is trained once, dropped, or still outstanding; its prompt is the one of its turn."""
    found, steps = [], timeline(parts)
    trained = Counter(g.admission for t in steps for g in t.groups)
    dropped = Counter(d.entry.admission for p in parts for d in p.history.drops)
    left = {e.admission for e in parts[-1].left}
    admitted = parts[-1].num_admitted
    found += [f"group {a} was trained {n} times" for a, n in trained.items() if n > 1]
    found += [f"group {a} was dropped {n} times" for a, n in dropped.items() if n > 1 and len(parts) == 1]
    if len(parts) == 1:
        found += [f"group {a} was trained and dropped" for a in trained.keys() & dropped.keys()]
    found += [f"group {a} was trained and is still outstanding" for a in trained.keys() & left]
    found += [f"group {a} got lost" for a in range(admitted) if a not in trained and a not in dropped and a not in left]
    found += [f"group {a} was never admitted" for a in (trained.keys() | left) if a >= admitted]
    num_prompts = parts[0].scenario.num_prompts
    for t in steps:
        for g in t.groups:
            if position_of(g, num_prompts) != g.admission:
                found.append(f"group {g.admission} holds the prompt of position {position_of(g, num_prompts)}")
    return found


def _end(last: Outcome) -> list[str]:
    if last.finished and last.version != last.scenario.steps:
        return [f"the run finished at version {last.version} of {last.scenario.steps}"]
    if last.error is None and not last.finished and last.scenario.stop_at_s is None:
        return ["the run ended early without an error"]
    return []
