import os

import pytest

from headrace.config.load import bundled_recipes, load, load_recipe, write_recipe
from headrace.config.sections import Recipe
from headrace.errors import ConfigError


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write_file


def test_empty_recipe_is_all_defaults(write):
    assert load_recipe(write("a.yaml", "")) == Recipe()


def test_whole_numbers_pass_for_numbers_and_lists_for_pairs(write):
    recipe = load_recipe(write("a.yaml", "optimizer: {lr: 1, betas: [0.8, 0.9], warmup: 0.5}\nrun: {steps: 7}\n"))
    assert recipe.optimizer.lr == 1.0
    assert recipe.optimizer.betas == (0.8, 0.9)
    assert recipe.optimizer.warmup == 0.5
    assert recipe.run.steps == 7


def test_only_an_evaluation_may_be_greedy(write):
    assert load_recipe(write("a.yaml", "eval: {temperature: 0}\n")).eval.temperature == 0
    with pytest.raises(ConfigError, match=r"sampling\.temperature: found 0 .*allowed: a number > 0"):
        load_recipe(write("a.yaml", "sampling: {temperature: 0}\n"))


def test_shorthands(write):
    recipe = load_recipe(write("a.yaml", "model: some/where\nalgorithm: {loss: cispo}\n"), ["model.dtype=bfloat16"])
    assert (recipe.model.path, recipe.model.dtype) == ("some/where", "bfloat16")
    assert recipe.algorithm.loss.name == "cispo"


def test_overrides_win_and_the_last_one_most(write):
    file = write("a.yaml", "optimizer: {lr: 1e-3}\n")
    assert load_recipe(file, ["optimizer.lr=1e-5", "optimizer.lr=2e-5"]).optimizer.lr == 2e-5
    assert load_recipe(file, ["optimizer={lr: 3e-5, eps: 1e-6}"]).optimizer.eps == 1e-6


def test_extends_merges_key_by_key(write):
    write("base.yaml", "optimizer: {lr: 1e-3, eps: 1e-6}\nrun: {steps: 5}\n")
    loaded = load(write("top.yaml", "extends: base\noptimizer: {lr: 1e-4}\n"))
    assert (loaded.recipe.optimizer.lr, loaded.recipe.optimizer.eps, loaded.recipe.run.steps) == (1e-4, 1e-6, 5)
    assert loaded.written["optimizer.lr"].endswith("top.yaml")
    assert loaded.written["optimizer.eps"].endswith("base.yaml")


def test_extends_a_bundled_recipe(write):
    assert load_recipe(write("a.yaml", "extends: grpo\n")) == load_recipe("grpo")


def test_another_loss_drops_the_keys_of_the_one_below(write):
    write("base.yaml", "algorithm: {loss: {name: ppo_clip, clip_high: 0.28}}\n")
    file = write("top.yaml", "extends: base\nalgorithm: {loss: {name: cispo}}\n")
    assert load_recipe(file).algorithm.loss.ratio_max == 5.0


def test_loss_key_without_a_name_changes_the_default_loss(write):
    loss = load_recipe(write("a.yaml", "algorithm: {loss: {clip_high: 0.28}}\n")).algorithm.loss
    assert (loss.name, loss.clip_high, loss.clip_low) == ("ppo_clip", 0.28, 0.2)


def test_extends_in_a_circle(write):
    write("a.yaml", "extends: b\n")
    with pytest.raises(ConfigError, match=r"circle: b\.yaml -> a\.yaml -> b\.yaml"):
        load(write("b.yaml", "extends: a\n"))


def test_file_paths_become_absolute(write, tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "answer": "1"}\n')
    file = write("a.yaml", "task: {name: file, path: rows.jsonl}\nreward: exact\n")
    monkeypatch.chdir(os.sep)
    assert load_recipe(file).task.path == str(tmp_path / "rows.jsonl")


def test_a_function_of_a_file_becomes_absolute(write, tmp_path):
    write("reward.py", "")
    assert load_recipe(write("a.yaml", "reward: 'reward.py:f'\n")).reward.verifier == f"{tmp_path}/reward.py:f"


@pytest.mark.parametrize("name", sorted(bundled_recipes()))
def test_every_bundled_recipe_is_valid_and_written_as_it_is_read(name, tmp_path):
    recipe = load_recipe(name)
    write_recipe(recipe, tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path) == recipe


def test_resolved_recipe_keeps_a_default_that_changes_later(tmp_path):
    write_recipe(Recipe(), tmp_path / "recipe.yaml")
    assert "group_size: 8" in (tmp_path / "recipe.yaml").read_text()


def test_recipe_changed_by_an_override_is_written_and_read_alike(tmp_path):
    loaded = load("demo", ["async.max_lag=0", "run.steps=3", "optimizer.lr=3e-05"])
    write_recipe(loaded.recipe, tmp_path / "recipe.yaml")
    assert load(tmp_path).recipe == loaded.recipe


def test_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfrun: {steps: 3}\n")
    assert load_recipe(tmp_path / "a.yaml").run.steps == 3


def test_a_folder_called_bundled_is_not_the_bundled_model(tmp_path):
    (tmp_path / "bundled").mkdir()
    (tmp_path / "a.yaml").write_text("model: bundled")
    (tmp_path / "b.yaml").write_text("model: ./bundled")
    assert load_recipe(tmp_path / "a.yaml").model.path == "bundled"
    assert load_recipe(tmp_path / "b.yaml").model.path == str(tmp_path / "bundled")
