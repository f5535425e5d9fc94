import pytest

from headrace.config.load import load_recipe
from headrace.errors import ConfigError
from headrace.studies.parts import BASELINE, PARTS, ablation, part_names
from headrace.studies.variant import Variant

RECIPE = """
extends: demo
batch: {num_minibatches: 2}
async: {max_lag: 4, max_uses: 2, schedule: {end: 1}}
algorithm:
  loss: {name: ppo_clip, dual_clip: 3.0}
  loss_weight: prompt_mean
  zero_variance: shrink
  kl: {coef: 0.01}
  overlong: {}
"""


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(RECIPE)
    return str(file)


def changes(found):
    return {variant.label: dict(variant.changes) for variant in found.variants}


def test_the_recipe_as_it_is_comes_first_and_every_part_in_use_is_left_out_in_turn(recipe):
    found = ablation(recipe, [])
    assert found.variants[0] == Variant(BASELINE, {})
    assert {
        "no kl": {"algorithm.kl": None},
        "no overlong": {"algorithm.overlong": None},
        "no async.schedule": {"async.schedule": None},
        "no correction": {"algorithm.correction": None},  # a default that acts: ppo_clip, two updates a step
        "no dual_clip": {"algorithm.loss.dual_clip": None},
        "zero_variance=keep": {"algorithm.zero_variance": "keep"},
        "max_uses=1": {"async.max_uses": 1},
        "minibatches=1": {"batch.num_minibatches": 1},
    }.items() <= changes(found).items()


def test_values_the_recipe_has_already_are_not_tried(recipe):
    labels = changes(ablation(recipe, []))
    assert [label for label in labels if label.startswith("loss_weight")] == [
        "loss_weight=token_mean", "loss_weight=sample_mean",
    ]  # fmt: skip
    assert [label for label in labels if label.startswith("loss=")] == ["loss=reinforce", "loss=cispo"]


def test_what_contradicts_the_change_goes_with_it(recipe):
    (_, synchronous) = ablation(recipe, [], ["max_lag"]).variants
    assert synchronous.label == "max_lag=0"
    changed = load_recipe(recipe, synchronous.overrides)
    assert (changed.async_.max_lag, changed.async_.max_uses, changed.async_.schedule) == (0, 1, None)


def test_the_critic_goes_with_its_advantage():
    (_, without) = ablation("ppo", [], ["value"]).variants
    changed = load_recipe("ppo", without.overrides).algorithm
    assert changed.value is None
    assert (changed.advantage.name, changed.advantage.mean) == ("group_relative", "batch")


def test_a_part_that_cannot_act_is_not_left_out():
    # demo's one update a step takes the behaviour anchor: the default correction does nothing there
    assert "correction" not in part_names(load_recipe("demo"))


def test_parts_and_single_variants_can_be_asked_for(recipe):
    found = ablation(recipe, [], ["loss_weight=token_mean", "kl"])
    assert list(changes(found)) == [BASELINE, "loss_weight=token_mean", "no kl"]


def test_an_unknown_part_is_an_error_that_lists_the_known_ones(recipe):
    with pytest.raises(ConfigError, match=r"'entropy' is no part of this recipe; allowed: loss, .*kl.*one variant"):
        ablation(recipe, [], ["entropy"])


def test_a_part_that_the_rest_needs_is_skipped_with_the_reason_or_an_error_when_asked_for(recipe):
    adaptive = ["algorithm.adaptive_clip={target_entropy: 0.5}"]
    found = ablation(recipe, adaptive)
    assert "loss=reinforce" not in changes(found)
    (reason,) = [text for text in found.skipped if text.startswith("loss=reinforce: ")]
    assert "adaptive_clip fights algorithm.loss.name 'reinforce'" in reason
    with pytest.raises(ConfigError, match=r"variant 'loss=reinforce': .*fights"):
        ablation(recipe, adaptive, ["loss"])


def test_every_row_of_the_table_is_a_key_of_recipes():
    from headrace.config.keys import all_keys, section_paths

    assert {part.key for part in PARTS} <= all_keys().keys() | section_paths()
