"""Parts of an algorithm: switched on and off, picked by name, and refused where they cannot act."""

import pytest

from headrace.config.algorithm import GAE, KLSection
from headrace.config.load import load, load_recipe, write_recipe
from headrace.errors import ConfigError


def read(tmp_path, text, overrides=()):
    (tmp_path / "a.yaml").write_text(text)
    return load(tmp_path / "a.yaml", overrides)


def test_a_part_is_off_until_written_and_an_empty_one_takes_the_defaults(tmp_path):
    assert read(tmp_path, "{}").recipe.algorithm.kl is None
    assert read(tmp_path, "algorithm: {kl: {}}").recipe.algorithm.kl == KLSection()
    assert read(tmp_path, "{}", ["algorithm.kl={}"]).recipe.algorithm.kl == KLSection()
    assert read(tmp_path, "{}", ["algorithm.kl.coef=.2"]).recipe.algorithm.kl.coef == 0.2


def test_null_takes_an_inherited_part_out(tmp_path):
    (tmp_path / "base.yaml").write_text("algorithm: {kl: {coef: .1}}")
    assert read(tmp_path, "extends: base.yaml").recipe.algorithm.kl.coef == 0.1
    assert read(tmp_path, "extends: base.yaml\nalgorithm: {kl: null}").recipe.algorithm.kl is None
    assert read(tmp_path, "extends: base.yaml", ["algorithm.kl=null"]).recipe.algorithm.kl is None


def test_another_kind_of_advantage_drops_the_keys_of_the_first(tmp_path):
    text = "algorithm: {advantage: {name: group_relative, mean: leave_one_out}}"
    with_values = read(tmp_path, text, ["algorithm.advantage=gae", "algorithm.value={}"]).recipe.algorithm
    assert with_values.advantage == GAE(name="gae")


def test_what_is_written_down_loads_equal(tmp_path):
    text = (
        "algorithm:\n  advantage: {name: gae, length_alpha: .05}\n  value: {}\n  correction: null\n"
        "  kl: {into: reward, estimator: k1}\n  loss: {name: bapo}\nasync: {max_lag: 4, schedule: {end: 2}}\n"
    )
    recipe = read(tmp_path, text).recipe
    write_recipe(recipe, tmp_path / "out.yaml")
    assert load_recipe(tmp_path / "out.yaml") == recipe


INERT = {
    "ddof without group scale": ("algorithm: {advantage: {scale: batch, ddof: 0}}", "algorithm.advantage.ddof"),
    "eps without scale": ("algorithm: {advantage: {scale: none, eps: 1e-4}}", "algorithm.advantage.eps"),
    "lambda beside a length": (
        "algorithm: {value: {}, advantage: {name: gae, length_alpha: .05, lambda_policy: .9}}",
        "algorithm.advantage.lambda_policy",
    ),
    "entropy steps without a target": ("algorithm: {entropy: {delta: .1}}", "algorithm.entropy.delta"),
    "ratio of a penalty in the reward": (
        "algorithm: {kl: {into: reward, importance: true}}",
        "algorithm.kl.importance",
    ),
    "lower end of a truncation": (
        "batch: {num_minibatches: 2}\nalgorithm: {correction: {low: .5}}",
        "algorithm.correction.low",
    ),
    "correction with one update": ("algorithm: {correction: {high: 3}}", "algorithm.correction.high"),
    "correction with the behaviour anchor": (
        "batch: {num_minibatches: 2}\nalgorithm: {loss: cispo, correction: {mode: mask, low: .5}}",
        "algorithm.correction.mode",
    ),
    "clip range where every ratio is 1": (
        "algorithm: {anchor: proximal, loss: {clip_high: .3}}",
        "algorithm.loss.clip_high",
    ),
    "tolerance that compares nothing": (
        "algorithm: {value: {}, advantage: gae, zero_variance_tolerance: .1}",
        "algorithm.zero_variance_tolerance",
    ),
    "last part of an even schedule": (
        "sampling: {schedule: {end: .8, final_frac: .3}}",
        "sampling.schedule.final_frac",
    ),
}


@pytest.mark.parametrize("name", INERT)
def test_a_written_key_without_effect_is_an_error(name, tmp_path):
    text, key = INERT[name]
    with pytest.raises(ConfigError, match="has no effect") as error:
        read(tmp_path, text)
    assert f"'{key}'" in str(error.value)


FIGHTS = {
    "values nobody has": ("algorithm: {advantage: gae}", ["'gae' needs algorithm.value"]),
    "values nobody reads": ("algorithm: {value: {}}", ["algorithm.value fights", "'group_relative'"]),
    "a moving range on a loss without one": (
        "algorithm: {loss: reinforce, clip_schedule: {}}",
        ["algorithm.clip_schedule fights", "'reinforce'"],
    ),
    "dual clip inside the range": ("algorithm: {loss: {dual_clip: 1.1}}", ["dual_clip 1.1", "> 1.2"]),
    "every prompt retires": ("algorithm: {pass_rate: {threshold: 0.0}}", ["pass_rate.threshold 0"]),
    "window that never fills": (
        "algorithm: {pass_rate: {window: 10, min_count: 11}}",
        ["pass_rate.window 10", "pass_rate.min_count 11", "window >= 11"],
    ),
    "buffer longer than a completion": ("algorithm: {overlong: {buffer_tokens: 65}}", ["buffer_tokens 65", "<= 64"]),
    "a bound that rises": ("async: {max_lag: 2, schedule: {end: 4}}", ["async.schedule.end 4", "async.max_lag 2"]),
    "uses beyond the lag": ("async: {max_lag: 1, max_uses: 3}", ["async.max_uses 3", "max_lag >= 2"]),
    "an interruption beyond the limit": (
        "algorithm: {interruption: {low: 10, high: 60, text: stop, answer_tokens: 8}}",
        ["algorithm.interruption.high 60", "max_completion_tokens 64"],
    ),
    "bounds that do not rise": ("algorithm: {loss: {name: bapo, low_end: 1.1}}", ["bounds must rise around 1"]),
}


@pytest.mark.parametrize("name", FIGHTS)
def test_parts_that_fight_are_both_named(name, tmp_path):
    text, parts = FIGHTS[name]
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    for part in parts:
        assert part in str(error.value)


def test_an_inherited_correction_is_noted_not_refused(tmp_path):
    (tmp_path / "base.yaml").write_text("batch: {num_minibatches: 2}\nalgorithm: {correction: {high: 3}}")
    loaded = read(tmp_path, "extends: base.yaml", ["batch.num_minibatches=1"])
    assert [note.key for note in loaded.notes] == ["algorithm.correction.high"]
