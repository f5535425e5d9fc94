"""Keys that fight are errors; keys without effect are errors for whoever wrote them, and notes when inherited."""

import pytest

from headrace.config.load import load
from headrace.errors import ConfigError

FIGHTS = {
    "group of one, group mean": ("batch: {group_size: 1}", ["batch.group_size 1", "algorithm.advantage.mean 'group'"]),
    "group of one, leave one out": (
        "batch: {group_size: 1}\nalgorithm: {advantage: {mean: leave_one_out, scale: none}}",
        ["batch.group_size 1", "advantage.mean 'leave_one_out'"],
    ),
    "group of one, group scale": (
        "batch: {group_size: 1}\nalgorithm: {advantage: {mean: batch}}",
        ["batch.group_size 1", "algorithm.advantage.scale 'group'"],
    ),
    "group of one, filtered": (
        "batch: {group_size: 1}\nalgorithm: {advantage: {mean: batch, scale: batch}, zero_variance: refill}",
        ["batch.group_size 1", "algorithm.zero_variance 'refill'"],
    ),
    "warm-up longer than the run": (
        "run: {steps: 10}\nbatch: {num_minibatches: 2}\noptimizer: {warmup: 21}",
        ["optimizer.warmup 21", "run.steps 10", "20 updates"],
    ),
    "more mini-batches than groups": (
        "batch: {groups_per_step: 4, num_minibatches: 5}",
        ["batch.num_minibatches 5", "batch.groups_per_step 4"],
    ),
    "rollout longer than a micro-batch": (
        "batch: {micro_batch_tokens: 64}",
        ["batch.micro_batch_tokens 64", "sampling.max_completion_tokens 64"],
    ),
    "verification longer than any wait": (
        "reward: {time_limit_s: 60}",
        ["reward.time_limit_s 60", "run.timeout_s 120"],
    ),
    "options of a verifier that does not run": ("reward: {math: {percent: hundredth}}", ["reward.math", "'task'"]),
    "file task without a file": ("task: file\nreward: exact", ["task.name 'file' needs task.path"]),
    "file task without a verifier": ("task: {name: file, path: a.jsonl}", ["needs reward.verifier"]),
}

INERT = {
    "task.path": ("task: {path: rows.jsonl}", "task.name is 'arithmetic'"),
    "task.prompt_column": ("task: {prompt_column: question}", "task.name is 'arithmetic'"),
    "task.params": ("task: {params: {size: 3}}", "takes no parameters"),
    "async.max_ready_batches": ("async: {max_lag: 0, max_ready_batches: 4}", "async.max_lag is 0"),
    "eval.every_steps": ("run: {steps: 10}\neval: {every_steps: 20}", "run.steps is 10"),
    "checkpoint.every_steps": ("run: {steps: 10}\ncheckpoint: {every_steps: 20}", "run.steps is 10"),
}


def load_text(tmp_path, text, overrides=()):
    (tmp_path / "a.yaml").write_text(text)
    return load(tmp_path / "a.yaml", overrides)


@pytest.mark.parametrize("name", FIGHTS)
def test_fighting_keys_are_both_named(name, tmp_path):
    text, parts = FIGHTS[name]
    with pytest.raises(ConfigError) as error:
        load_text(tmp_path, text)
    for part in [*parts, "allowed"]:
        assert part in str(error.value)


def test_the_limits_themselves_are_allowed(tmp_path):
    text = "run: {steps: 10}\nbatch: {groups_per_step: 4, num_minibatches: 4}\noptimizer: {warmup: 40}\n"
    assert load_text(tmp_path, text).recipe.optimizer.warmup == 40


@pytest.mark.parametrize("key", INERT)
def test_a_written_key_without_effect_is_an_error(key, tmp_path):
    text, why = INERT[key]
    with pytest.raises(ConfigError) as error:
        load_text(tmp_path, text)
    assert f"'{key}' has no effect" in str(error.value)
    assert why in str(error.value)


def test_a_key_that_an_override_takes_the_effect_from_is_a_note(tmp_path):
    loaded = load_text(tmp_path, "async: {max_lag: 2, max_ready_batches: 4}\n", ["async.max_lag=0"])
    assert [note.key for note in loaded.notes] == ["async.max_ready_batches"]
    assert loaded.recipe.async_.max_ready_batches == 2  # without effect, so back at its default


def test_a_key_that_an_override_writes_without_effect_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"'async\.max_ready_batches' has no effect"):
        load_text(tmp_path, "async: {max_lag: 0}\n", ["async.max_ready_batches=4"])


def test_a_key_of_the_extended_recipe_is_a_note(tmp_path):
    (tmp_path / "base.yaml").write_text("eval: {every_steps: 50}\n")
    loaded = load_text(tmp_path, "extends: base\nrun: {steps: 10}\n")
    assert [note.key for note in loaded.notes] == ["eval.every_steps"]


def test_defaults_without_effect_are_neither(tmp_path):
    assert load_text(tmp_path, "async: {max_lag: 0}\n").notes == ()
