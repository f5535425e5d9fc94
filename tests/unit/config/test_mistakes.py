"""Every mistake in a recipe is an error that names the key, what was found, what is allowed, and the nearest name."""

import pytest

from headrace.config.load import load
from headrace.errors import ConfigError

CASES = {
    "unknown key": ("optimizer: {learning_rat: 1e-4}", ["a.yaml", "'optimizer.learning_rat'", "'optimizer.lr'"]),
    "key in the wrong section": ("batch: {lr: 1e-4}", ["'batch.lr'", "Did you mean 'optimizer.lr'?"]),
    "key outside any section": ("lr: 1e-4", ["'lr'", "Did you mean 'optimizer.lr'?"]),
    "unknown section": ("loss: {clip_high: 0.3}", ["'loss'", "'algorithm.loss'"]),
    "misspelt clip key": ("algorithm: {loss: {eps_hi: 0.3}}", ["eps_hi", "clip_high"]),
    "key of another loss": (
        "algorithm: {loss: {name: cispo, clip_high: 0.3}}",
        ["'algorithm.loss.clip_high' belongs to algorithm.loss 'ppo_clip'"],
    ),
    "text for a number": ("optimizer: {lr: fast}", ['found "fast" (text)', "allowed: a number > 0"]),
    "quoted number": ('run: {steps: "3"}', ['run.steps: found "3" (text)', "a whole number >= 1"]),
    "truth value for a number": ("run: {steps: true}", ["run.steps: found true (truth value)"]),
    "fraction for a count": ("run: {steps: 1.5}", ["run.steps: found 1.5 (number)"]),
    "number out of bounds": ("optimizer: {betas: [0.9, 2]}", ["optimizer.betas: found [0.9, 2] (list)", "< 1"]),
    "infinite": ("optimizer: {lr: .inf}", ["optimizer.lr: found Infinity"]),
    "list too short": ("optimizer: {betas: [0.9]}", ["a list of 2"]),
    "unknown choice": ("async: {at_bound: wiat}", ["one of 'wait', 'drop'", "Did you mean 'wait'?"]),
    "unknown loss": ("algorithm: {loss: cispoo}", ['algorithm.loss.name: found "cispoo"', "Did you mean 'cispo'?"]),
    "unknown task": ("task: arithmetics", ["task.name", "Did you mean 'arithmetic'?"]),
    "unknown device": ("trainer: {device: gpu}", ["trainer.device", "'cuda:N'"]),
    "section that is a number": ("run: 3", ["section 'run': found 3", "steps, seed, timeout_s"]),
    "file that is a list": ("- run", ["found a list", "a mapping of sections"]),
    "nucleus sampling": ("sampling: {top_p: 0.9}", ["'sampling.top_p'", "Truncated sampling does not exist here"]),
    "base that is not there": ("extends: grpoo", ["extends", "'grpoo'", "Did you mean 'grpo'?"]),
    "two bases": ("extends: [grpo, cispo]", ["extends", "one path or name"]),
}


@pytest.mark.parametrize("name", CASES)
def test_mistake(name, tmp_path):
    text, parts = CASES[name]
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "a.yaml")
    assert error.value.exit_code == 2
    for part in parts:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_all_mistakes_are_told_at_once(tmp_path):
    (tmp_path / "a.yaml").write_text("run: {steps: x}\noptimizer: {lr: y}\n")
    with pytest.raises(ConfigError, match=r"run\.steps.*optimizer\.lr"):
        load(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("lr=3", "Did you mean 'optimizer.lr'?"),
        ("optimizer.lr", "allowed is key.path=value"),
        ("=3", "allowed is key.path=value"),
        ("run.steps=[", "not valid YAML"),
        ("optimizer.lr=fast", "override: optimizer.lr"),
    ],
)
def test_override_mistake(override, part):
    with pytest.raises(ConfigError) as error:
        load("demo", [override])
    assert part in str(error.value)


def test_recipe_that_does_not_exist_lists_the_bundled_ones():
    with pytest.raises(ConfigError, match=r"'demoo' does not exist.*cispo, cpu/grpo-smollm2, dapo, demo.*mean 'demo'"):
        load("demoo")
