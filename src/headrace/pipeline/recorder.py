"""Writes down what happens: metrics, rollouts, evaluations, health, and the events the live view is fed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from headrace.errors import VerifierBroken
from headrace.health.monitor import HealthMonitor
from headrace.metrics.evaluation import evaluation_stats, examples
from headrace.pipeline.controller import Trained
from headrace.pipeline.evaluation import Evaluation
from headrace.pipeline.generator_pool import GeneratorPool
from headrace.pipeline.ledger import Outstanding
from headrace.pipeline.messages import Usage
from headrace.pipeline.step_metrics import group_metrics
from headrace.pipeline.totals import Totals
from headrace.protocols import Tracker
from headrace.records import Group, completion_ids
from headrace.tracking.eval_log import EvalLog
from headrace.tracking.rollout_store import RolloutStore

MIN_VERDICTS = 50  # verdicts before the share of broken ones is believed
Report = Callable[[dict[str, Any]], None]


class RunRecorder:
    """The recorder of a real run.

    ``report`` sends events to the supervisor, each with a ``kind``: phase, step, evaluation, checkpoint or totals.
    Raises ``VerifierBroken`` from ``trained`` when more than ``max_error_frac`` of all verdicts are errors.
    """

    def __init__(
        self,
        *,
        tracker: Tracker,
        rollouts: RolloutStore,
        evals: EvalLog,
        totals: Totals,
        decode: Callable[[Sequence[int]], str],
        report: Report,
        answer_key: str,
        eval_temperature: float,
        verifier_name: str,
        max_error_frac: float,
    ) -> None:
        self._tracker, self._rollouts, self._evals, self._totals = tracker, rollouts, evals, totals
        self._decode, self._report, self._answer_key = decode, report, answer_key
        self._eval_temperature = eval_temperature
        self._verifier_name, self._max_error_frac = verifier_name, max_error_frac
        self._health = HealthMonitor()
        self._num_verdicts = self._num_errors = 0
        self._num_dropped = 0
        self._last_step: tuple[float, int] | None = None
        self._last_error = ""

    def phase(self, name: str) -> None:
        self._report({"kind": "phase", "phase": name})

    def first_admission(self, pool: GeneratorPool) -> None:
        self._totals.begin(_usage(pool))

    def trained(self, trained: Trained, pool: GeneratorPool) -> None:
        """Log a finished step."""
        usage = _usage(pool)
        version = trained.stepped.result.version
        self._totals.see(usage)
        metrics = self._step_metrics(trained)
        self._tracker.log(version, metrics)
        self._store(trained.groups, step=version)
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
        self._check_verifier()

    def _step_metrics(self, trained: Trained) -> dict[str, float]:
        stepped, totals = trained.stepped, self._totals
        metrics = {**group_metrics(trained.groups, stepped.result.step), **dict(stepped.result.metrics)}
        errors = self._count_verdicts(trained.groups)
        totals.train_s += stepped.train_s
        totals.publish_s += stepped.publish_s
        totals.tokens_trained += trained.batch.num_tokens
        totals.trainer_flops += float(metrics.get("trainer/flops", 0.0))
        totals.steps += 1
        totals.max_lag = max(totals.max_lag, int(metrics["rollout/lag_max"]))
        metrics |= {
            "rollout/num_dropped": float(self._num_dropped),
            "trainer/step_s": stepped.train_s,
            "weights/publish_s": stepped.publish_s,
            "trainer/idle_frac": totals.trainer_idle_frac,
            "generator/idle_frac": totals.generator_idle_frac,
            "verifier/error_frac": errors,
            **self._rates(trained.batch.num_tokens),
        }
        self._num_dropped = 0
        return metrics

    def _rates(self, num_tokens: int) -> dict[str, float]:
        """Tokens a second since the last step, on both sides."""
        now, generated = self._totals.clock(), self._totals.tokens_generated
        before, self._last_step = self._last_step, (now, generated)
        if before is None or now <= before[0]:
            return {}
        seconds = now - before[0]
        return {
            "trainer/tokens_per_s": num_tokens / seconds,
            "generator/tokens_per_s": (generated - before[1]) / seconds,
        }

    def _count_verdicts(self, groups: Sequence[Group]) -> float:
        verdicts = [r.verdict for g in groups for r in g.rollouts if r.verdict is not None]
        errors = [v.error for v in verdicts if v.error is not None]
        self._num_verdicts += len(verdicts)
        self._num_errors += len(errors)
        self._last_error = errors[-1] if errors else self._last_error
        return len(errors) / max(len(verdicts), 1)

    def _check_verifier(self) -> None:
        if self._num_verdicts < MIN_VERDICTS or self._num_errors <= self._max_error_frac * self._num_verdicts:
            return
        raise VerifierBroken(
            f"verifier '{self._verifier_name}' could not judge {self._num_errors} of {self._num_verdicts} completions "
            f"(reward.max_error_frac allows {self._max_error_frac:g}); the last reason: {self._last_error}"
        )

    def _store(self, groups: Sequence[Group], *, step: int, dropped: str = "") -> None:
        for group in groups:
            texts = [self._decode(completion_ids(r)) for r in group.rollouts]
            answer = str(group.prompt.row.get(self._answer_key, ""))
            self._rollouts.add_group(group, texts, step=step, answer=answer, dropped=dropped)

    def dropped(self, entries: tuple[Outstanding, ...], *, step: int, reason: str) -> None:
        """Groups given up before they were trained; the finished ones' completions are kept on record."""
        self._num_dropped += len(entries)
        finished = [e.group for e in entries if e.group is not None]
        self._count_verdicts(finished)
        self._store(finished, step=step + 1, dropped=reason)

    def last_update(self, pool: GeneratorPool) -> None:
        self._totals.end(_usage(pool))
        self._report_totals()

    def evaluated(self, evaluation: Evaluation, pool: GeneratorPool) -> None:
        if self._totals.ended is None:
            self._totals.see(_usage(pool))
        row = self._evals.log(
            evaluation.version,
            evaluation_stats(evaluation.groups),
            temperature=self._eval_temperature,
            compute=self._totals.compute(),
            examples=examples(evaluation.groups, self._decode, answer_key=self._answer_key),
        )
        self._report({"kind": "evaluation", "row": row})

    def checkpointed(self, version: int, error: str) -> None:
        self._rollouts.flush()
        self._report({"kind": "checkpoint", "version": version, "error": error})

    def _report_totals(self) -> None:
        totals = self._totals
        self._report(
            {
                "kind": "totals",
                "train_wall_s": totals.wall_s,
                "num_steps": totals.steps,
                "max_lag_trained": totals.max_lag,
                "trainer_idle_frac": totals.trainer_idle_frac,
                "generator_idle_frac": totals.generator_idle_frac,
                "compute": asdict(totals.compute()),
            }
        )

    def close(self) -> None:
        self._rollouts.close()
        self._evals.close()
        self._tracker.close()


def _usage(pool: GeneratorPool) -> Mapping[str, Usage]:
    return {name: state.usage for name, state in pool.states.items()}
