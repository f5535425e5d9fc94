"""Whatever the scenario: no violation, and the run comes to its end."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.pipeline.sim.checks import violations
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate

LAGS = (0, 1, 2, 4, 8)
DELAYS = (0.0, 0.05, 1.0, 4.0)
CHOICES: dict[str, tuple[Any, ...]] = {
    "steps": tuple(range(1, 9)),
    "groups_per_step": (1, 2, 3, 4),
    "group_size": (1, 2, 3),
    "at_bound": ("wait", "drop"),
    "zero_variance": ("keep", "shrink", "refill"),
    "max_ready_batches": (1, 2, 10),
    "max_uses": (1, 1, 2, 3),
    "retire_after": (0, 0, 4),
    "retire_effective": ("now", "next_epoch"),
    "easy": (0.0, 0.2),
    "num_generators": (1, 2, 3),
    "num_slots": (1, 4, 16),
    "length_sigma": (0.0, 0.9, 1.5),
    "max_tokens": (5, 100),
    "stall_prob": (0.0, 0.2),
    "link_s": (0.0, 0.002, 0.3),
    "train_s": (0.0, 0.1, 1.0, 5.0),
    "publish_s": (0.0, 0.05, 0.5),
    "verify_s": (0.0, 0.05, 2.0),
    "verifier_error": (0.0, 0.2),
    "eval_every": (0, 1, 3),
}


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    values = {key: draw(st.sampled_from(allowed)) for key, allowed in CHOICES.items()}
    max_lag = draw(st.sampled_from(LAGS))
    fall = st.tuples(st.integers(0, 8), st.integers(0, max_lag))
    return _sensible(
        **values,
        max_lag=max_lag,
        seed=draw(st.integers(0, 10_000)),
        falls=tuple(draw(st.lists(fall, max_size=2))),
        take_s=tuple(draw(st.lists(st.sampled_from(DELAYS), min_size=1, max_size=3))),
    )


def random_scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    values = {key: rng.choice(allowed) for key, allowed in CHOICES.items()}
    max_lag = rng.choice(LAGS)
    falls = tuple((rng.randint(0, 8), rng.randint(0, max_lag)) for _ in range(rng.choice((0, 0, 1, 2))))
    take_s = tuple(rng.choice(DELAYS) for _ in range(3))
    return _sensible(**values, max_lag=max_lag, seed=seed, falls=falls, take_s=take_s)


def _sensible(**values: Any) -> Scenario:
    if values["zero_variance"] == "refill":  # groups of one, or of prompts that are hardly judged, never have signal
        values |= {"group_size": max(values["group_size"], 2), "verifier_error": 0.0, "length_sigma": 0.9}
    return Scenario(**values)


def check(outcome: Outcome) -> None:
    scenario = outcome.scenario
    assert violations(outcome) == [], scenario
    assert outcome.error is None, scenario
    assert outcome.finished, scenario
    if scenario.at_bound == "wait" and scenario.zero_variance != "refill":
        assert outcome.history.drops == [], scenario
        assert len(outcome.history.trained_admissions) == scenario.steps * scenario.groups_per_step, scenario
        assert outcome.num_admitted == len(set(outcome.history.trained_admissions)), scenario
        assert outcome.left == (), scenario


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(scenarios())
def test_any_scenario_ends_well(scenario: Scenario) -> None:
    check(simulate(scenario))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_five_hundred_random_scenarios_end_well(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        check(simulate(random_scenario(seed)))


def test_an_outcome_is_a_function_of_its_scenario() -> None:
    first, again = simulate(random_scenario(7)), simulate(random_scenario(7))
    assert first.history.trained_admissions == again.history.trained_admissions
    assert first.history.step_times == again.history.step_times
    assert first.end_s == again.end_s
