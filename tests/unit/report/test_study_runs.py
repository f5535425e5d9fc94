import pytest

from headrace.config.load import load_recipe, write_recipe
from headrace.errors import DataError
from headrace.report.study_runs import last_mean, read_run
from headrace.report.summary import RunSummary, write_summary
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.eval_log import Compute, EvalLog
from headrace.tracking.metrics_log import MetricsLog


def finished_run(folder, *, attempts=1):
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(load_recipe("demo", ["run.steps=20", "batch.groups_per_step=8", "run.seed=3"]), folder / "recipe.yaml")
    for _ in range(attempts):
        begin_attempt(folder)
    log, evals = MetricsLog(folder, attempt=attempts), EvalLog(folder, attempt=attempts)
    for step in range(1, 21):
        log.log(step, {"reward/pass_rate": 0.5, "loss/entropy": step / 10})
    for version, rate in ((0, 0.4), (20, 0.9)):
        evals.log(version, {"mean_at_n": rate}, temperature=1.0, compute=Compute())
    summary = RunSummary(
        pass_rate_before=0.4, pass_rate_after=0.9, wall_s=12.0, train_wall_s=8.0, num_steps=20, max_lag_trained=1,
        trainer_idle_frac=0.1, generator_idle_frac=0.1, num_orphans=0, seed=3,
    )  # fmt: skip
    write_summary(folder, summary)
    return folder


def test_figures_of_a_run(tmp_path):
    run = read_run(finished_run(tmp_path), variant="lr=1")
    assert (run.variant, run.seed, run.pass_rate_before, run.pass_rate_after) == ("lr=1", 3, 0.4, 0.9)
    assert run.entropy == pytest.approx(1.95)  # steps 19 and 20
    assert (run.train_s, run.samples_per_s) == (8.0, 20 * 8 * 8 / 8.0)
    assert (run.max_lag, run.positive_share) == (1, None)
    assert run.held_out == {0: 0.4, 20: 0.9}
    assert run.training == dict.fromkeys(range(1, 21), 0.5)


def test_a_run_that_was_interrupted_has_no_training_time(tmp_path):
    run = read_run(finished_run(tmp_path, attempts=2), variant="")
    assert (run.train_s, run.samples_per_s, run.pass_rate_after) == (None, None, 0.9)


def test_a_run_that_has_not_finished_is_an_error(tmp_path):
    with pytest.raises(DataError, match="did not finish"):
        read_run(tmp_path, variant="")


def test_mean_of_the_last_tenth():
    rows = [{"step": step, "metrics": {"x": float(step)}} for step in range(1, 31)]
    assert last_mean(rows, "x") == 29.0  # 28, 29, 30
    assert last_mean(rows[:4], "x") == 4.0
    assert last_mean(rows, "y") is None
