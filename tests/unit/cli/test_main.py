import argparse
import resource
import subprocess
import sys

import pytest

from headrace.cli.main import main, make_parser, parse

CURVE = ["--compute", "--score", "--from", "--until", "--method", "--interval", "--r0", "--grid-a", "--grid-mid"]
CURVE += ["--draws", "--level", "--json", "targets"]
OPTIONS = {
    "demo": ["--runs", "overrides"],
    "train": ["--resume", "--runs", "overrides", "recipe"],
    "check": ["--data", "overrides", "recipe"],
    "explain": ["overrides", "recipe"],
    "eval": ["--recipe", "overrides", "target"],
    "sweep": sorted(["--baseline", "--dry-run", "--out", "--seeds", "overrides", "recipe"]),
    "ablate": sorted(["--dry-run", "--out", "--parts", "--seeds", "overrides", "recipe"]),
    "recipes": [],
    "verify": ["--json", "--keep-going", "--time-limit", "--verifier", "--workers", "rows"],
    "fit": sorted([*CURVE, "--plot", "--backtest"]),
    "forecast": sorted([*CURVE, "--margin", "--at", "--budget", "--target"]),
    "compare": sorted([*CURVE, "--plot", "--margin", "--at"]),
}
"""Frozen: scripts depend on these names. Change them on purpose only."""


def subcommands():
    (found,) = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return found.choices


def test_option_names_are_frozen():
    found = {
        name: sorted((a.option_strings or [a.dest])[-1] for a in parser._actions if a.dest != "help")
        for name, parser in subcommands().items()
    }
    assert found == OPTIONS


def test_overrides_may_stand_anywhere():
    options = parse(["train", "demo", "a.b=1", "--runs", "x", "c.d=2"])
    assert (options.recipe, options.runs, options.overrides) == ("demo", "x", ["a.b=1", "c.d=2"])


@pytest.mark.parametrize("arguments", [[], ["trane", "demo"], ["train", "demo", "--fast"]])
def test_wrong_usage_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["explain", "demoo"], "Did you mean 'demo'?"),
        (["explain", "demo", "optimizer.lrr=1"], "Did you mean 'optimizer.lr'?"),
        (["check", "demo", "batch.group_size=1"], "batch.group_size 1 fights"),
        (["explain", "demo", "lr"], "allowed is key.path=value"),
        (["train"], "train needs a recipe"),
        (["train", "demo", "--resume", "runs/x"], "brings its own recipe"),
    ],
)
def test_a_users_mistake_is_one_paragraph_and_ends_with_2(arguments, part, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("headrace: error: ")
    assert part in error
    assert error.count("\n") == 1


def test_recipe_and_resume_reach_the_training(monkeypatch):
    import headrace.cli.train

    calls = []
    monkeypatch.setattr(headrace.cli.train, "run_train", lambda *a, **k: calls.append((a, k)) or 0)
    main(["train", "grpo", "run.steps=3"])
    main(["train", "--resume", "runs/x", "run.steps=3", "--runs", "y"])
    assert calls == [
        (("grpo", ["run.steps=3"]), {"runs": "runs", "resume": None}),
        ((None, ["run.steps=3"]), {"runs": "y", "resume": "runs/x"}),
    ]


def test_interruption_ends_with_130(monkeypatch, capsys):
    import headrace.cli.explain

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(headrace.cli.explain, "run_explain", interrupt)
    assert main(["explain", "demo"]) == 130


HEAVY = ("torch", "transformers", "pyarrow", "matplotlib", "tensorboard", "wandb", "sympy", "math_verify")


@pytest.mark.parametrize("arguments", [["--help"], ["check", "demo"], ["explain", "demo"], ["recipes"]])
def test_light_commands_start_without_heavy_packages(arguments):
    code = (
        "import sys\nfrom headrace.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1].strip() == "loaded:"


def cpu_s(code):
    """Processor seconds of a Python process, the least of five: on an idle machine that is its wall time."""
    times = []
    for _ in range(5):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return min(times)


@pytest.mark.parametrize("command", ["check", "explain"])
def test_light_commands_answer_at_once(command):
    """Promised: half a second more than pydantic alone."""
    ours = cpu_s(f"from headrace.cli.main import main; main([{command!r}, 'demo'])")
    assert ours - cpu_s("import pydantic") < 0.5
