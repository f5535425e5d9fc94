"""Writes down what happens: metrics, rollouts, evaluations, health, and the events the live view is fed with."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from headrace.config.algorithm import AlgorithmSection
from headrace.health.monitor import HealthMonitor
from headrace.metrics.evaluation import evaluation_stats, examples
from headrace.pipeline.evaluation import Evaluation
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.ledger import Outstanding
from headrace.pipeline.messages import Usage
from headrace.pipeline.parts import Trained
from headrace.pipeline.step_metrics import step_metrics, with_advantage
from headrace.pipeline.step_pace import StepPace
from headrace.pipeline.totals import Spent, Totals
from headrace.pipeline.verdict_watch import VerdictWatch
from headrace.records import Group, completion_ids
from headrace.tracking.eval_log import Compute, EvalLog
from headrace.tracking.fanout import Fanout
from headrace.tracking.rollout_store import RolloutStore

Report = Callable[[dict[str, Any]], None]


class RunRecorder:
    """The recorder of a real run.

    ``report`` sends events to the supervisor, each with a ``kind``: phase, step, evaluation, checkpoint or totals.
    Raises ``VerifierBroken`` from ``trained`` when more than ``max_error_frac`` of all verdicts are errors.
    """

    def __init__(
        self,
        *,
        tracker: Fanout,
        rollouts: RolloutStore,
        evals: EvalLog,
        totals: Totals,
        decode: Callable[[Sequence[int]], str],
        report: Report,
        algorithm: AlgorithmSection,
        answer_key: str,
        eval_temperature: float,
        verifier_name: str,
        max_error_frac: float,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._tracker, self._rollouts, self._evals, self._totals = tracker, rollouts, evals, totals
        self._decode, self._report, self._answer_key = decode, report, answer_key
        self._algorithm, self._eval_temperature = algorithm, eval_temperature
        self._verdicts = VerdictWatch(verifier_name, max_error_frac)
        self._pace = StepPace(totals.clock, cpu_clock)
        self._health = HealthMonitor()
        self._num_dropped = 0
        self._costs: dict[int, Compute] = {}  # what training had cost when a version was made

    def phase(self, name: str) -> None:
        self._report({"kind": "phase", "phase": name})

    def first_admission(self, pool: GeneratorPool) -> None:
        self._totals.begin(_usage(pool))

    def trained(self, trained: Trained, pool: GeneratorPool) -> None:
        """Log a finished step."""
        version, advantage = trained.stepped.result.version, trained.stepped.result.advantage
        if advantage is not None:
            trained = replace(trained, groups=with_advantage(trained.groups, advantage))
        self._totals.see(_usage(pool))
        metrics = self._step_metrics(trained)
        self._costs[version] = self._totals.compute()
        self._tracker.log(version, metrics)
        self._store(trained.groups, step=version, shaped=self._shaped_rewards(trained))
        fresh = self._health.observe(metrics)
        self._report(
            {
                "kind": "step",
                "step": version,
                "metrics": metrics,
                "alerts": list(self._health.active),
                "new_alerts": list(fresh),
            }
        )
        self._report_totals()
        self._verdicts.check()

    def _step_metrics(self, trained: Trained) -> dict[str, float]:
        stepped, totals = trained.stepped, self._totals
        metrics = {**step_metrics(trained, self._algorithm), **dict(stepped.result.metrics)}
        totals.step(
            busy_s=stepped.train_s + stepped.publish_s,
            num_tokens=trained.batch.num_tokens,
            num_trainable=trained.batch.num_trainable,
            flops=float(metrics.get("trainer/flops", 0.0)),
            lag=int(metrics["rollout/lag_max"]),
        )
        metrics |= {
            "rollout/num_dropped": float(self._num_dropped),
            "rollout/utilisation": totals.utilisation,
            "trainer/step_s": stepped.train_s,
            "weights/publish_s": stepped.publish_s,
            "trainer/idle_frac": totals.trainer_idle_frac,
            "generator/idle_frac": totals.generator_idle_frac,
            "verifier/error_frac": self._verdicts.count(trained.groups),
            **self._pace.step(tokens_trained=trained.batch.num_tokens, tokens_generated=totals.tokens_generated),
            **self._unwritten(),
        }
        self._num_dropped = 0
        return metrics

    def _unwritten(self) -> dict[str, float]:
        """What a full disk did not take, by kind; {} when it took everything."""
        counts = {
            "tracking/num_unwritten_metrics": self._tracker.num_unwritten,
            "tracking/num_unwritten_evals": self._evals.num_unwritten,
            "tracking/num_unwritten_rollouts": self._rollouts.num_unwritten,
        }
        return {name: float(count) for name, count in counts.items() if count}

    def _shaped_rewards(self, trained: Trained) -> list[float | None] | None:
        """By rollout, None for one that was not judged; None when the algorithm shapes nothing."""
        if self._algorithm.overlong is None:
            return None
        return [None if math.isnan(reward) else reward for reward in trained.batch.rewards.tolist()]

    def _store(
        self,
        groups: Sequence[Group],
        *,
        step: int,
        dropped: str = "",
        shaped: Sequence[float | None] | None = None,
    ) -> None:
        texts = [self._decode(completion_ids(r)) for g in groups for r in g.rollouts]
        answers = [str(g.prompt.row.get(self._answer_key, "")) for g in groups]
        self._rollouts.add(groups, texts, step=step, answers=answers, dropped=dropped, shaped=shaped)

    def dropped(self, entries: tuple[Outstanding, ...], *, step: int, reason: str) -> None:
        """Groups given up before they were trained; the finished ones' completions are kept on record."""
        self._num_dropped += len(entries)
        finished = [e.group for e in entries if e.group is not None]
        self._verdicts.count(finished)
        self._store(finished, step=step + 1, dropped=reason)

    def last_update(self, pool: GeneratorPool) -> None:
        self._totals.end(_usage(pool))
        self._report_totals()

    def evaluated(self, evaluation: Evaluation, pool: GeneratorPool) -> None:
        row = self._evals.log(
            evaluation.version,
            evaluation_stats(evaluation.groups),
            temperature=self._eval_temperature,
            compute=self._cost_of(evaluation.version),
            examples=examples(evaluation.groups, self._decode, answer_key=self._answer_key),
        )
        self._report({"kind": "evaluation", "row": row})

    def _cost_of(self, version: int) -> Compute:
        """What training had cost when a version was made: evaluations end later, and training goes on beside them."""
        cost = self._costs.get(version, self._totals.before.compute)
        self._costs = {v: c for v, c in self._costs.items() if v >= version}
        return cost

    def checkpointed(self, version: int, error: str) -> None:
        self._rollouts.flush()
        self._report({"kind": "checkpoint", "version": version, "error": error})

    def spent(self, pool: GeneratorPool) -> Spent:
        self._totals.see(_usage(pool))
        return self._totals.spent()

    def _report_totals(self) -> None:
        spent = self._totals.spent()
        self._report(
            {
                "kind": "totals",
                "train_wall_s": spent.wall_s,
                "num_steps": spent.compute.steps,
                "max_lag_trained": spent.max_lag,
                "trainer_idle_frac": self._totals.trainer_idle_frac,
                "generator_idle_frac": self._totals.generator_idle_frac,
                "compute": asdict(spent.compute),
            }
        )

    def close(self) -> None:
        self._rollouts.close()
        self._evals.close()
        self._tracker.close()


def _usage(pool: GeneratorPool) -> Mapping[str, Usage]:
    return {name: state.usage for name, state in pool.states.items()}
