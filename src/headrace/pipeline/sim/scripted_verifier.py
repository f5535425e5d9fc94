"""A verifier by script: it takes its time, fails now and then, and has prompts that nobody solves or that all solve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.pipeline.sim.chance import Chance
from headrace.pipeline.sim.scenario import Scenario
from headrace.records import Verdict


class ScriptedVerifier:
    """The verdict is a function of the scenario's seed, the prompt and the completion."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._chance = Chance(scenario.seed)

    async def __call__(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        name = f"{row['index']}/{completion}"
        await asyncio.sleep(self._chance.delay(self._scenario.verify_s, "verify", name))
        if self._chance.uniform("error", name) < self._scenario.verifier_error:
            return Verdict(reward=None, error="the verifier broke")
        if self._chance.uniform("easy", row["index"]) < self._scenario.easy:
            return Verdict(reward=1.0, passed=True)
        solvable = self._chance.uniform("solvable", row["index"]) < self._scenario.solvable
        passed = solvable and self._chance.uniform("passed", name) < 0.5
        return Verdict(reward=float(passed), passed=passed)
