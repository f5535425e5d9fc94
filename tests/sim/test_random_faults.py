"""Random scenarios with random stops, crashes and full disks, resumed until they are done: nothing lost or doubled."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.checkpoint import CheckpointStore
from headrace.pipeline.sim.checks import violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate


def scenario_of(rng: random.Random, seed: int) -> Scenario:
    max_lag = rng.choice((0, 1, 2, 4, 8))
    return Scenario(
        seed=seed,
        steps=rng.randint(4, 10),
        groups_per_step=rng.randint(1, 3),
        group_size=3,
        max_lag=max_lag,
        falls=((rng.randint(0, 8), rng.randint(0, max_lag)),) if rng.random() < 0.3 else (),
        at_bound=rng.choice(("wait", "drop")),
        zero_variance=rng.choice(("keep", "shrink", "refill")),
        max_ready_batches=rng.choice((1, 2, 10)),
        max_uses=rng.choice((1, 1, 2, 3)),
        retire_after=rng.choice((0, 6)),
        easy=0.2,
        num_generators=rng.choice((1, 2)),
        num_slots=rng.choice((2, 16)),
        token_s=rng.choice((0.01, 0.05)),
        stall_prob=rng.choice((0.0, 0.1)),
        take_s=(rng.choice((0.05, 1.0)), rng.choice((0.05, 2.0))),
        eval_every=rng.choice((0, 2)),
        checkpoint_every=rng.choice((1, 2, 3)),
        checkpoint_every_s=rng.choice((0.0, 2.5)),
        keep=rng.choice((1, 2)),
    )


def with_fault(scenario: Scenario, rng: random.Random) -> Scenario:
    when = rng.uniform(0.0, 8.0)
    fault = rng.choice(("stop_at_s", "stop_at_s", "generator_dies_at_s", "trainer_dies_at_s"))
    full = tuple(v for v in range(1, 10) if rng.random() < 0.2)
    return replace(scenario, **{fault: when}, save_fails_at=full)


def run_to_the_end(seed: int, folder: Path) -> list[Outcome]:
    """At most eight parts with a fault each, then one without."""
    rng = random.Random(seed)
    scenario = scenario_of(rng, seed)
    parts: list[Outcome] = []
    for number in range(9):
        part = with_fault(scenario, rng) if number < 8 else scenario
        resume = CheckpointStore(folder, keep=scenario.keep).newest()
        if resume is None:
            parts.clear()  # nothing was saved yet: the run starts anew
        parts.append(simulate(part, folder=folder, resume=resume))
        if parts[-1].finished:
            break
    return parts


@pytest.mark.parametrize("block", range(5))
def test_every_prompt_is_accounted_for(block: int, tmp_path: Path) -> None:
    resumed = 0
    for seed in range(20 * block, 20 * block + 20):
        parts = run_to_the_end(seed, tmp_path / str(seed))
        assert parts[-1].finished, (seed, parts[-1].error)
        assert violations(*parts) == [], seed
        resumed += len(parts) - 1
    assert resumed > 10  # there was something to survive
