"""``headrace train`` and ``headrace demo``: check, start the processes, show progress, write the summary."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.build import CONTROLLER, RunPlan, generator_names, trainer_names
from headrace.cli.run_folder import check_room, find_run, new_run_folder
from headrace.config.load import load
from headrace.config.sections import Recipe
from headrace.models.locate import ModelFiles, resolve_model
from headrace.pipeline.checkpoint import CheckpointStore
from headrace.report.curve import write_curve
from headrace.report.final_text import pick_pair, print_final
from headrace.report.live import LiveView
from headrace.report.live_forecast import LiveForecaster
from headrace.report.live_state import event_from_metrics
from headrace.report.summary import RunSummary, write_summary
from headrace.runtime.role_spec import RoleSpec
from headrace.runtime.supervisor import Supervisor
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.eval_log import read_evals, read_examples
from headrace.tracking.metrics_log import read_metrics

INTERRUPTED = 130


@dataclass(slots=True)
class _Watcher:
    """Feeds the live view from the run's events and keeps the newest totals for the summary."""

    view: LiveView
    forecaster: LiveForecaster
    max_lag: int
    num_steps: int
    totals: dict[str, Any] = field(default_factory=dict)
    alerts: list[Any] = field(default_factory=list)
    checkpoint_errors: list[str] = field(default_factory=list)

    def __call__(self, role: str, event: Mapping[str, Any]) -> None:
        match event.get("kind"):
            case "phase":
                self.view.update({"phase": event["phase"], "num_steps": self.num_steps, "max_lag": self.max_lag})
            case "step":
                self.alerts = list(event["alerts"])
                fields = event_from_metrics(event["step"], event["metrics"], alerts=self.alerts)
                self.view.update(fields)
            case "evaluation":
                row = event["row"]
                fields = {"held_out_pass_rate": row["mean_at_n"], "held_out_step": row["version"]}
                self.view.update({**fields, "forecast": self.forecaster.take(row)})
            case "totals":
                self.totals = dict(event)
            case "checkpoint" if event["error"]:
                self.checkpoint_errors.append(str(event["error"]))


def run_train(
    recipe_name: str | None,
    overrides: Sequence[str] = (),
    *,
    runs: str = "runs",
    resume: str | None = None,
    console: Console | None = None,
) -> int:
    """Train a recipe, or go on with a run. Returns the exit code: 0, or 130 after Ctrl-C or SIGTERM."""
    from headrace.cli.check import check_data

    console = console or Console()
    started = time.monotonic()
    if resume is not None:
        folder = find_run(resume)
        recipe = load(folder, overrides).recipe
        model = resolve_model(recipe.model.path)
        check_room(folder, recipe, model)
        check_data(recipe, model, console=console)
    else:
        assert recipe_name is not None
        loaded = load(recipe_name, overrides)
        recipe, model = loaded.recipe, resolve_model(loaded.recipe.model.path)
        check_data(recipe, model, console=console)
        folder = new_run_folder(runs, loaded.name, recipe, model)
    return _run(recipe, model, folder, console=console, started=started, resumed=resume is not None)


def run_demo(overrides: Sequence[str] = (), *, runs: str = "runs", console: Console | None = None) -> int:
    """The bundled recipe ``demo``."""
    return run_train("demo", overrides, runs=runs, console=console)


def _run(recipe: Recipe, model: ModelFiles, folder: Path, *, console: Console, started: float, resumed: bool) -> int:
    plan = _plan(recipe, model, folder, console=console, resumed=resumed)
    if plan is None:
        return 0
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)
    forecaster = LiveForecaster(folder, recipe.run.steps, attempt=plan.attempt)
    with closing(forecaster), LiveView(title=f"headrace {folder.name}", console=console) as view:
        watcher = _Watcher(view, forecaster, max_lag=recipe.async_.max_lag, num_steps=recipe.run.steps)
        outcome = Supervisor(folder, role_specs(plan), primary=CONTROLLER).run(on_event=watcher)
    result = outcome.result or {}
    if not result.get("finished"):
        where = f"at step {result['version']} of {recipe.run.steps}" if result else "before it could write a checkpoint"
        console.print(f"stopped {where}; go on with: headrace train --resume {folder}", highlight=False, soft_wrap=True)
        return outcome.exit_code or INTERRUPTED
    _finish(
        recipe, folder, watcher, console=console, wall_s=time.monotonic() - started, num_orphans=outcome.num_orphans
    )
    return 0


def _plan(recipe: Recipe, model: ModelFiles, folder: Path, *, console: Console, resumed: bool) -> RunPlan | None:
    """What the processes need; None when a resumed run has nothing left to do."""
    newest = CheckpointStore(folder, keep=recipe.checkpoint.keep).newest()
    if newest is not None and newest.version >= recipe.run.steps:
        console.print(f"{folder} is at step {newest.version} of {recipe.run.steps}: nothing left to do")
        return None
    if resumed:
        where = f"the checkpoint of step {newest.version}" if newest else "step 0 (there is no complete checkpoint)"
        console.print(f"resuming from {where}")
    attempt = begin_attempt(folder, newest.version if newest else 0)
    return RunPlan(
        recipe=recipe,
        run_folder=str(folder),
        model_folder=str(model.folder),
        context_length=model.context_length,
        num_parameters=model.num_parameters_estimate,
        lineage=attempt - 1,
        attempt=attempt,
        resume=str(newest.folder) if newest else None,
        answer_key=recipe.task.answer_column,
    )


def role_specs(plan: RunPlan) -> list[RoleSpec]:
    """The processes of a run."""
    recipe, args = plan.recipe, {"plan": plan}
    controller = RoleSpec(role="controller", name=CONTROLLER, factory="headrace.build:controller", args=args)
    trainers = [
        RoleSpec(role="trainer", name=name, factory="headrace.build:trainer", args=args, threads=recipe.trainer.threads)
        for name in trainer_names(recipe)
    ]
    generators = [
        RoleSpec(
            role="generator",
            name=name,
            factory="headrace.build:generator",
            args=args,
            threads=recipe.generator.threads,
        )
        for name in generator_names(recipe)
    ]
    return [controller, *trainers, *generators]


def _finish(
    recipe: Recipe, folder: Path, watcher: _Watcher, *, console: Console, wall_s: float, num_orphans: int
) -> None:
    """Summary, picture and closing words of a run that did all its steps."""
    evals = read_evals(folder)
    before = next((row for row in evals if row["version"] == 0), None)
    after = next((row for row in reversed(evals) if row["version"] == recipe.run.steps), None)
    totals, fit = watcher.totals, watcher.forecaster.newest
    lags = [row["metrics"].get("rollout/lag_max") or 0 for row in read_metrics(folder)]
    summary = RunSummary(
        pass_rate_before=before["mean_at_n"] if before else None,
        pass_rate_after=after["mean_at_n"] if after else None,
        wall_s=wall_s,
        train_wall_s=totals["train_wall_s"],
        num_steps=recipe.run.steps,
        max_lag_trained=int(max(lags, default=0)),
        trainer_idle_frac=totals["trainer_idle_frac"],
        generator_idle_frac=totals["generator_idle_frac"],
        num_orphans=num_orphans,
        seed=recipe.run.seed,
        extra={
            "max_lag": recipe.async_.max_lag,
            "compute": totals["compute"],
            "checkpoint_errors": watcher.checkpoint_errors,
            "forecast": fit.to_json() if fit else None,
        },
    )
    write_summary(folder, summary)
    curve = write_curve(folder, title=folder.name, max_lag=recipe.async_.max_lag)
    pair = pick_pair(read_examples(before), read_examples(after)) if before and after else None
    print_final(
        console,
        summary,
        run_folder=folder,
        curve=curve,
        pair=pair,
        max_lag=recipe.async_.max_lag,
        alerts=watcher.alerts,
        fit=fit,
    )
