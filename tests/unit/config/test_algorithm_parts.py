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
    "tolerance without mean or scale of a group": (
        "algorithm: {advantage: {mean: batch, scale: none}, zero_variance_tolerance: .1}",
        "algorithm.zero_variance_tolerance",
    ),
    "cap where every ratio is 1": (
        "algorithm: {anchor: proximal, loss: {name: cispo, ratio_max: 4}}",
        "algorithm.loss.ratio_max",
    ),
    "dual clip where every ratio is 1": (
        "algorithm: {anchor: proximal, loss: {dual_clip: 3}}",
        "algorithm.loss.dual_clip",
    ),
    "search for bounds where every ratio is 1": (
        "algorithm: {anchor: proximal, loss: {name: bapo, target_share: .5}}",
        "algorithm.loss.target_share",
    ),
    "gate where every ratio is 1": (
        "algorithm: {anchor: proximal, loss: {name: sapo, tau_neg: 2.0}}",
        "algorithm.loss.tau_neg",
    ),
    "distance where every ratio is 1": (
        "algorithm: {anchor: proximal, loss: {name: kl_cov, coef: .5}}",
        "algorithm.loss.coef",
    ),
    "moving range where every ratio is 1": (
        "algorithm: {anchor: proximal, clip_schedule: {factor: .1}}",
        "algorithm.clip_schedule.factor",
    ),
    "adapted range where every ratio is 1": (
        "algorithm: {anchor: proximal, adaptive_clip: {target_entropy: 2.0}}",
        "algorithm.adaptive_clip.target_entropy",
    ),
    "both sides of one": (
        "algorithm: {loss: cispo, adaptive_clip: {target_entropy: 2.0, side: both}}",
        "algorithm.adaptive_clip.side",
    ),
    "last part of an even range": (
        "algorithm: {clip_schedule: {final_frac: .3}}",
        "algorithm.clip_schedule.final_frac",
    ),
    "limit of a weight that is fixed": ("algorithm: {entropy: {coef_max: .2}}", "algorithm.entropy.coef_max"),
    "token form of equal tokens": (
        "algorithm: {loss: {name: gspo, token_form: true}}",
        "algorithm.loss.token_form",
    ),
    "anchor of no ratio": (
        "algorithm: {loss: reinforce, correction: null, anchor: behaviour}",
        "algorithm.anchor",
    ),
    "value after an end that is masked": (
        "algorithm: {value: {}, advantage: {name: gae, bootstrap_truncated: true}, truncated: mask}",
        "algorithm.advantage.bootstrap_truncated",
    ),
    "clip of values that have not moved": (
        "algorithm: {value: {clip: .2}, advantage: gae}",
        "algorithm.value.clip",
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
    "caps the wrong way round": (
        "algorithm: {loss: {name: cispo, ratio_min: .9, ratio_max: .8}}",
        ["ratio_min 0.9", "ratio_max 0.8"],
    ),
    "a policy that always waits": (
        "run: {steps: 5}\nalgorithm: {value: {pretrain_steps: 5}, advantage: gae}",
        ["pretrain_steps 5", "run.steps 5"],
    ),
    "a weight above its limit": (
        "algorithm: {entropy: {target: 1.0, coef: .5}}",
        ["entropy.coef 0.5", "coef_max 0.1"],
    ),
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
