"""The commands with runs that are made up: what a run leaves is written, training is not."""

import json

import pytest
from rich.console import Console

from headrace.cli.ablate import run_ablate
from headrace.cli.main import main, parse
from headrace.cli.sweep import run_sweep
from headrace.config.load import load_recipe, write_recipe
from headrace.errors import ConfigError, RoleDied
from headrace.report.summary import RunSummary, write_summary
from headrace.tracking.attempts import begin_attempt
from headrace.tracking.eval_log import Compute, EvalLog


def train(task):
    """A run that ends at .80 plus .01 x seed, or .02 x seed higher with a cap of 8; with one of 6 it fails."""
    recipe = load_recipe(task.recipe_file)
    seed, cap = recipe.run.seed, getattr(recipe.algorithm.loss, "ratio_max", 0)
    if cap == 6:
        raise RoleDied("trainer was ended by SIGKILL after 3.0 s")
    folder = task.runs / f"20260101-000000-{task.recipe_file.stem}"
    folder.mkdir()
    write_recipe(recipe, folder / "recipe.yaml")
    begin_attempt(folder)
    after = 0.80 + 0.01 * seed + (0.02 * seed if cap == 8 else 0)
    for version, rate in ((0, 0.4), (recipe.run.steps, after)):
        EvalLog(folder).log(version, {"mean_at_n": rate}, temperature=1.0, compute=Compute())
    summary = RunSummary(
        pass_rate_before=0.4, pass_rate_after=after, wall_s=2.0, train_wall_s=1.0, num_steps=recipe.run.steps,
        max_lag_trained=1, trainer_idle_frac=0, generator_idle_frac=0, num_orphans=0, seed=seed,
    )  # fmt: skip
    write_summary(folder, summary)
    return 0


def run(command, arguments, runner=train):
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        code = (run_sweep if command == "sweep" else run_ablate)(
            parse([command, *arguments]), console=console, runner=runner
        )
    return code, capture.get()


def test_a_sweep_from_the_arguments_to_the_result(tmp_path):
    arguments = ["demo", "algorithm.loss.ratio_max=4,8", "run.steps=3", "--seeds", "0,1,2", "--out", str(tmp_path)]
    code, text = run("sweep", arguments)
    assert code == 0
    assert "[6/6] ratio_max=8, seed 2: 0.400 to 0.860" in text
    # differences by seed 0, .02, .04: mean .02, error .02 / sqrt(3)
    assert "+0.020 (0.012)" in text
    assert "the spread covers the difference" in text
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["changes"]["ratio_max=8"] == {"algorithm.loss.ratio_max": 8}
    assert results["variants"][1]["difference"]["mean"] == pytest.approx(0.02)
    assert results["fixed"] == ["run.steps=3"]
    assert "| ratio_max=8 | 3 | 0.400 ± 0.000 | 0.830 ± 0.030 |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"

    code, text = run("sweep", arguments, runner=None)  # nothing is left to train
    assert code == 0
    assert "[6/6] ratio_max=8, seed 2: 0.400 to 0.860 (finished before)" in text


def test_another_baseline(tmp_path):
    arguments = ["demo", "algorithm.loss.ratio_max=4,8", "--baseline", "ratio_max=8", "--out", str(tmp_path)]
    _, text = run("sweep", arguments)
    assert "ratio_max=4 against ratio_max=8: -0.020" in text


def test_a_variant_that_fails_is_told_and_the_command_ends_with_1(tmp_path):
    arguments = ["demo", "algorithm.loss.ratio_max=4,6,8", "--seeds", "0,1", "--out", str(tmp_path)]
    code, text = run("sweep", arguments)
    assert code == 1
    assert "[2/6] ratio_max=6, seed 0: failed: trainer was ended by SIGKILL after 3.0 s" in text
    assert "ratio_max=8 against ratio_max=4" in text
    table = (tmp_path / "table.md").read_text()
    assert "| ratio_max=6 | 0 | - |" in table
    assert "- Failed: ratio_max=6, seed 1: trainer was ended by SIGKILL after 3.0 s" in table


def test_a_study_that_was_stopped_says_so(tmp_path):
    arguments = ["demo", "algorithm.loss.ratio_max=4,8", "--seeds", "0", "--out", str(tmp_path)]
    code, text = run("sweep", arguments, runner=lambda task: 130)
    assert code == 130
    assert "[1/2] ratio_max=4, seed 0: interrupted" in text
    assert "the same command goes on from here" in text


def test_an_ablation(tmp_path):
    arguments = ["demo", "--parts", "zero_variance,loss", "--seeds", "0,1", "--out", str(tmp_path)]
    code, text = run("ablate", arguments)
    assert code == 0
    assert "zero_variance=shrink against as it is: +0.000 (2 seeds): no difference at any seed." in text
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results["changes"]) == ["as it is", "zero_variance=shrink", "loss=reinforce", "loss=ppo_clip"]
    assert results["command"] == "ablate"


def test_a_dry_run_checks_and_leaves_nothing(tmp_path):
    arguments = ["demo", "algorithm.loss=cispo,ppo_clip", "--dry-run", "--out", str(tmp_path / "x")]
    code, text = run("sweep", arguments, runner=None)
    assert code == 0
    assert "6 runs of 'demo': 2 variants x 3 seeds, compared with 'loss=cispo'" in text
    assert '  loss=ppo_clip: algorithm.loss="ppo_clip"' in text
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["sweep", "demo", "run.steps=3"], "sweep needs a key with several values"),
        (
            ["sweep", "demo", "algorithm.loss.ratio_max=4,-1"],
            "variant 'ratio_max=-1': override: algorithm.loss",
        ),
        (["sweep", "demo", "run.steps=3,4", "--seeds", "x"], "--seeds 'x': allowed are whole numbers"),
        (["sweep", "demo", "run.steps=3,4", "--baseline", "5"], "--baseline '5' is none of the variants"),
        (["ablate", "demo", "--parts", "kl"], "'kl' is no part of this recipe"),
    ],
)
def test_mistakes_end_with_2_before_anything_runs(arguments, part, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert part in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_that_lost_its_summary_is_run_anew(tmp_path, monkeypatch):
    import headrace.cli.train
    from headrace.cli.study import train_quietly
    from headrace.studies.run import Task

    calls = []
    monkeypatch.setattr(
        headrace.cli.train, "run_train", lambda recipe, **k: calls.append((recipe, k.get("resume"))) or 0
    )
    lost = tmp_path / "20260101-000000-x"
    lost.mkdir()
    task = Task(recipe_file=tmp_path / "x.yaml", runs=tmp_path, resume=lost, log=tmp_path / "x.log")
    assert train_quietly(task) == 0
    assert calls == [(None, str(lost)), (str(tmp_path / "x.yaml"), None)]


def test_a_run_needs_a_recipe():
    with pytest.raises(ConfigError, match="'nothing' does not exist"):
        run("ablate", ["nothing"])
