"""What a recorder says of steps and evaluations, on clocks that tests move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.config.algorithm import AlgorithmSection, OverlongSection
from headrace.errors import VerifierBroken
from headrace.pipeline.evaluation import Evaluation
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.messages import Stepped, Usage
from headrace.pipeline.parts import Trained
from headrace.pipeline.recorder import RunRecorder
from headrace.pipeline.signal import Changed
from headrace.pipeline.totals import Spent, Totals
from headrace.records import FloatArray, Group, PackedBatch, StepResult, Verdict
from headrace.tracking.eval_log import Compute, EvalLog, read_evals
from headrace.tracking.fanout import Fanout
from headrace.tracking.metrics_log import MetricsLog, read_metrics
from headrace.tracking.rollout_store import RolloutStore, read_rollouts


class Run:
    """A recorder with one generator; every step takes 2 s, 0.1 s of them the controller's, and 30 tokens."""

    def __init__(self, folder: Path, before: Spent | None = None, algorithm: AlgorithmSection | None = None) -> None:
        self.now = self.cpu = 0.0
        self.events: list[dict[str, Any]] = []
        self.pool = GeneratorPool({"g": None}, Changed(), lambda: self.now)  # type: ignore[dict-item]
        self.evals = EvalLog(folder)
        self.recorder = RunRecorder(
            tracker=Fanout([MetricsLog(folder)]),
            rollouts=RolloutStore(folder),
            evals=self.evals,
            totals=Totals(clock=lambda: self.now, num_parameters=10, num_threads=2, before=before or Spent()),
            decode=lambda ids: "/".join(str(i) for i in ids),
            report=self.events.append,
            algorithm=algorithm or AlgorithmSection(),
            answer_key="answer",
            eval_temperature=0.5,
            verifier_name="exact",
            max_error_frac=0.1,
            cpu_clock=lambda: self.cpu,
        )
        self.recorder.first_admission(self.pool)

    def step(self, step: int, *groups: Group, advantage: FloatArray | None = None, **more: Any) -> None:
        self.now += 2.0
        self.cpu += 0.1
        state = self.pool.states["g"]
        state.usage = Usage(num_tokens=state.usage.num_tokens + 30)
        result = StepResult(step=step, version=step + 1, metrics={}, advantage=advantage)
        stepped = Stepped(result=result, train_s=1.0, publish_s=0.0)
        batch = batch_of(step, more.pop("rewards", np.zeros(0, np.float32)))
        self.recorder.trained(Trained(groups=groups, batch=batch, stepped=stepped, **more), self.pool)


def batch_of(step: int, rewards: FloatArray) -> PackedBatch:
    fields: dict[str, Any] = dict.fromkeys(PackedBatch.__dataclass_fields__, 0)
    kept = {"step": step, "updates": (), "num_tokens": 40, "num_trainable": 12, "rewards": rewards}
    return PackedBatch(**{**fields, **kept})


def test_a_step_is_written_everywhere(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    run = Run(tmp_path)
    run.step(0, make_group(0, [0, 0], [0]))
    run.step(1, make_group(1, [0], [1, 1, 1]))
    run.recorder.close()
    first, second = (row["metrics"] for row in read_metrics(tmp_path))
    assert "controller/cpu_frac" not in first  # nothing to compare with
    assert second["controller/cpu_frac"] == pytest.approx(0.05)
    assert (second["trainer/tokens_per_s"], second["generator/tokens_per_s"]) == (20.0, 15.0)
    assert (second["rollout/lag_max"], second["rollout/lag_mean"]) == (1.0, 0.5)
    assert (second["rollout/length_mean"], second["reward/pass_rate"]) == (2.0, 0.5)
    rows = read_rollouts(tmp_path, columns=["step", "completion", "num_tokens", "lag"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, "2/3", 2, 0),
        (1, "2", 1, 0),
        (2, "2", 1, 1),
        (2, "2/3/4", 3, 0),
    ]
    assert "tracking/num_unwritten_rollouts" not in second


def test_shares_of_reuse_and_use_and_the_prompt_set(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    """12 tokens train in a step, 30 are sampled."""
    run = Run(tmp_path)
    run.step(0, make_group(0, [0], [0]), make_group(1, [0], [0]), uses=(0, 0), curation={"curation/num_active": 7.0})
    run.step(1, make_group(1, [0], [0]), make_group(2, [0], [0]), uses=(1, 0))
    first, second = (event["metrics"] for event in run.events if event["kind"] == "step")
    assert (first["rollout/reuse_frac"], second["rollout/reuse_frac"]) == (0.0, 0.5)
    assert first["rollout/utilisation"] == second["rollout/utilisation"] == 0.4
    assert first["curation/num_active"] == 7.0
    assert "curation/num_active" not in second


def test_shaped_rewards_stand_beside_the_verdicts(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    """Rewards 1, 1 and one that was not judged; the second 1 lost a half to its length."""
    algorithm = AlgorithmSection(overlong=OverlongSection(buffer_tokens=4))
    run = Run(tmp_path, algorithm=algorithm)
    group = make_group(0, [0], [0, 0, 0], [0], rewards=[1.0, 1.0, None])
    run.step(0, group, rewards=np.asarray([1.0, 0.5, np.nan], np.float32))
    run.recorder.close()
    metrics = read_metrics(tmp_path)[0]["metrics"]
    assert (metrics["reward/mean"], metrics["reward/shaped_mean"]) == (1.0, 0.75)
    assert metrics["rollout/zero_variance_frac"] == 1.0  # of the verdicts
    rows = read_rollouts(tmp_path, columns=["reward", "reward_shaped"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1.0, 1.0), (1.0, 0.5), (None, None)]


def test_without_shaping_there_is_no_shaped_reward(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    run = Run(tmp_path)
    run.step(0, make_group(0, [0], [0]), rewards=np.asarray([1.0, 0.0], np.float32))
    run.recorder.close()
    assert "reward/shaped_mean" not in run.events[0]["metrics"]
    assert read_rollouts(tmp_path, columns=["reward_shaped"]).to_pylist() == [{"reward_shaped": None}] * 2


def test_advantages_of_the_trainer_are_the_rollouts(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    """-4 on three tokens, 1 on one; the third rollout did not train."""
    run = Run(tmp_path)
    group = make_group(0, [0, 0, 0], [0], [0])
    run.step(0, group, advantage=np.asarray([-4.0, 1.0, np.nan], np.float32))
    run.recorder.close()
    metrics = run.events[0]["metrics"]
    assert metrics["loss/advantage_abs_mean"] == (4 * 3 + 1) / 4
    assert metrics["loss/advantage_outlier_frac"] == 3 / 4
    assert metrics["rollout/effective_frac"] == pytest.approx(2 / 3)
    rows = read_rollouts(tmp_path, columns=["advantage"]).to_pylist()
    assert [row["advantage"] for row in rows] == [-4.0, 1.0, None]


def test_an_evaluation_carries_what_its_version_had_cost(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    """It ends when training is two steps further, and a second one of version 0 costs what was spent before."""
    run = Run(tmp_path, before=Spent(wall_s=100.0, compute=Compute(device_s=200.0, tokens_generated=7, steps=5)))
    for step in (5, 6, 7):
        run.step(step, make_group(step, [step], [step]))
    groups = (make_group(0, [6, 6], [6]),)
    run.recorder.evaluated(Evaluation(version=5, groups=groups), run.pool)
    run.recorder.evaluated(Evaluation(version=6, groups=groups), run.pool)
    run.recorder.evaluated(Evaluation(version=8, groups=groups), run.pool)
    run.recorder.close()
    costs = [row["compute"] for row in read_evals(tmp_path)]
    assert [(c["steps"], c["device_s"], c["tokens_generated"]) for c in costs] == [
        (5, 200.0, 7),
        (6, 200.0 + 2 * 2.0, 7 + 30),
        (8, 200.0 + 3 * 4.0, 7 + 90),
    ]
    totals = [e for e in run.events if e["kind"] == "totals"][-1]
    assert (totals["num_steps"], totals["train_wall_s"]) == (8, 106.0)


def test_what_the_disk_did_not_take_is_a_figure_of_the_step(tmp_path: Path, make_group: Callable[..., Group]) -> None:
    run = Run(tmp_path)
    run.recorder._rollouts.num_unwritten = 6
    run.step(0, make_group(0, [0], [0]))
    assert run.events[0]["metrics"]["tracking/num_unwritten_rollouts"] == 6.0


def judged(group: Group, *errors: str | None) -> Group:
    verdicts = [Verdict(reward=None, error=e) if e else Verdict(reward=1.0, passed=True) for e in errors]
    return replace(group, rollouts=tuple(replace(group.rollouts[0], verdict=v) for v in verdicts))


def test_a_verifier_that_breaks_ends_the_run_with_its_last_reason(
    tmp_path: Path, make_group: Callable[..., Group]
) -> None:
    run = Run(tmp_path)
    group = make_group(0, [0])
    run.step(0, judged(group, *["early"] * 3, *[None] * 27))
    run.step(1, judged(group, *["early"] * 3, *[None] * 27))  # 6 of 60: allowed
    with pytest.raises(VerifierBroken, match=r"'exact' could not judge 7 of 61 completions .* the last reason: late"):
        run.step(2, judged(group, "late"))
