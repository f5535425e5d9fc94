"""Any part of the controller may raise: the run ends with that very error, at once, whatever else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import DataError, RecordError, VerifierBroken
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.parts import Parts, Trained
from headrace.pipeline.sim.checks import violations
from headrace.pipeline.sim.history import History
from headrace.pipeline.sim.numbered_prompts import NumberedPrompts
from headrace.pipeline.sim.scenario import Scenario
from headrace.pipeline.sim.simulation import Outcome, simulate
from headrace.protocols import Sampler
from headrace.records import Prompt, Rollout, Verdict
from headrace.tasks.single_turn import SingleTurn

BASE = Scenario(steps=10, num_generators=2, timeout_s=30.0)
Alter = Callable[[Parts], Parts]


def ends_with(error: type[Exception], message: str, alter: Alter, scenario: Scenario = BASE) -> Outcome:
    outcome = simulate(scenario, alter=alter)
    assert isinstance(outcome.error, error), outcome.error
    assert message in str(outcome.error)
    assert not outcome.finished
    assert outcome.end_s < 20  # no time-out was needed
    return outcome


class BadRow(NumberedPrompts):
    def at(self, position: int) -> Prompt:
        if position == 13:
            raise DataError("row 13 cannot be encoded")
        return super().at(position)


def test_a_prompt_that_cannot_be_drawn() -> None:
    ends_with(DataError, "row 13", lambda parts: replace(parts, train_source=BadRow(50)))


class BadEnvironment(SingleTurn):
    async def run(self, prompt: Prompt, sampler: Sampler, *, group_id: str, seed: int) -> list[Rollout]:
        rollouts = await super().run(prompt, sampler, group_id=group_id, seed=seed)
        if prompt.index == 7:
            raise RecordError("the environment is broken")
        return rollouts


def test_an_environment_that_raises_cancels_the_rest_of_its_group() -> None:
    def alter(parts: Parts) -> Parts:
        return replace(parts, assembler=replace(parts.assembler, environment=BadEnvironment()))

    ends_with(RecordError, "the environment is broken", alter)


async def _bad_judge(completion: str, row: Mapping[str, Any]) -> Verdict:
    raise VerifierBroken("all workers are gone")


def test_a_verifier_pool_that_raises() -> None:
    ends_with(
        VerifierBroken,
        "all workers are gone",
        lambda parts: replace(parts, assembler=replace(parts.assembler, judge=_bad_judge)),
    )


@pytest.mark.parametrize("phase", ["evaluating before", "training"])
def test_a_verifier_pool_that_raises_in_an_evaluation(phase: str) -> None:
    """In the first evaluation, and in one beside training."""
    calls = 0

    async def judge(completion: str, row: Mapping[str, Any]) -> Verdict:
        nonlocal calls
        calls += 1
        if phase == "evaluating before" or calls > 8:
            raise VerifierBroken("all workers are gone")
        return Verdict(reward=1.0, passed=True)

    def alter(parts: Parts) -> Parts:
        assert parts.evaluator is not None
        mine = replace(parts.evaluator.assembler, judge=judge)
        return replace(parts, evaluator=replace(parts.evaluator, assembler=mine))

    outcome = ends_with(VerifierBroken, "all workers", alter, replace(BASE, eval_every=2))
    assert outcome.history.phases[-1] == phase


class StrictHistory(History):
    def trained(self, trained: Trained, pool: GeneratorPool) -> None:
        super().trained(trained, pool)
        if trained.batch.step == self.last:
            raise VerifierBroken("too many verdicts are errors")

    last = 4


class StrictAtTheEnd(StrictHistory):
    last = 9


@pytest.mark.parametrize("recorder", [StrictHistory, StrictAtTheEnd])
def test_a_recorder_that_ends_the_run_even_at_its_last_step(recorder: type[History]) -> None:
    ends_with(VerifierBroken, "too many verdicts", lambda parts: replace(parts, recorder=recorder()))


@dataclass(frozen=True)
class Slow:
    """A verifier of another kind: it hangs for one prompt."""

    async def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        if row["index"] == 5:
            await asyncio.Event().wait()
        return Verdict(reward=1.0, passed=True)


def test_a_verdict_that_never_comes_is_named() -> None:
    outcome = simulate(BASE, alter=lambda parts: replace(parts, assembler=replace(parts.assembler, judge=Slow())))
    assert "1 unfinished groups, the oldest being group 5" in str(outcome.error)
    assert "owe 'generator-0' 0 completions, 'generator-1' 0 completions" in str(outcome.error)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_an_unjudged_rollout(reward: float) -> None:
    async def judge(completion: str, row: Mapping[str, Any]) -> Verdict:
        return Verdict(reward=reward if row["index"] % 2 else 1.0, passed=True)

    outcome = simulate(BASE, alter=lambda parts: replace(parts, assembler=replace(parts.assembler, judge=judge)))
    assert outcome.finished
    for trained in outcome.history.steps:
        for group in trained.groups:
            for rollout in group.rollouts:
                assert rollout.verdict is not None
                assert rollout.verdict.judged == (group.prompt.index % 2 == 0)
                assert bool(rollout.verdict.error) == (group.prompt.index % 2 == 1)


@pytest.mark.parametrize("at_s", [3.0 + 0.07 * i for i in range(10)])
def test_a_controller_that_was_held_up_reads_before_it_judges(at_s: float) -> None:
    """The process is stopped for longer than every time-out (SIGSTOP, a laptop's lid): what came meanwhile counts."""
    jump_s = 0.0

    def alter(parts: Parts) -> Parts:
        loop = asyncio.get_running_loop()

        def clock() -> float:
            return loop.time() + jump_s

        def jump() -> None:
            nonlocal jump_s
            jump_s = 1000.0

        loop.call_later(at_s, jump)
        parts.pool._clock = clock
        return replace(parts, clock=clock)

    outcome = simulate(BASE, alter=alter)
    assert outcome.error is None
    assert violations(outcome) == []


def test_a_slow_disk_is_no_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit runs beside the event loop and takes ten times the time-out; nothing moves meanwhile."""

    async def slowly(function: Callable[..., Any], *args: Any) -> Any:
        await asyncio.sleep(300)
        return function(*args)

    monkeypatch.setattr(asyncio, "to_thread", slowly)
    outcome = simulate(replace(BASE, checkpoint_every=5), folder=tmp_path)
    assert outcome.finished
    assert outcome.history.checkpoints == [(5, ""), (10, "")]
    assert violations(outcome) == []
