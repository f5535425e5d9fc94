import pytest

from headrace.errors import ConfigError
from headrace.studies.grid import find_variant, grid, split_arguments
from headrace.studies.variant import Variant, show


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("algorithm.loss.ratio_max=4,5,8", (4, 5, 8)),
        ("optimizer.lr=1e-4, 2e-4", (1e-4, 2e-4)),
        ("algorithm.loss=cispo,ppo_clip", ("cispo", "ppo_clip")),
        ("algorithm.loss={name: cispo}, {name: ppo_clip}", ({"name": "cispo"}, {"name": "ppo_clip"})),
        ("algorithm.kl=null,{coef: 0.01}", (None, {"coef": 0.01})),
        ("optimizer.betas=[[.9,.95],[.9,.99]]", ([0.9, 0.95], [0.9, 0.99])),
        ("optimizer.betas=[.9,.95],[.9,.99]", ([0.9, 0.95], [0.9, 0.99])),
        ('algorithm.interruption.text="well, then", so', ("well, then", "so")),
    ],
)
def test_values_are_the_entries_of_a_yaml_list(argument, values):
    (axis,), fixed = split_arguments([argument])
    assert (axis.key, axis.values, fixed) == (argument.partition("=")[0], values, [])


@pytest.mark.parametrize(
    "argument",
    ["run.steps=15", "optimizer.betas=[.9,.95]", "tracking.also=[wandb]", "optimizer.lr=1,,2", "lr", "a={b: 1, c: 2}"],
)  # fmt: skip
def test_one_value_is_an_override_of_every_variant(argument):
    assert split_arguments([argument]) == ([], [argument])


def test_the_grid_has_every_combination_the_last_key_fastest():
    axes, _ = split_arguments(["algorithm.loss.ratio_max=4,8", "optimizer.lr=1e-4,2e-4,3e-4"])
    assert [dict(variant.changes) for variant in grid(axes)] == [
        {"algorithm.loss.ratio_max": bound, "optimizer.lr": lr} for bound in (4, 8) for lr in (1e-4, 2e-4, 3e-4)
    ]
    assert grid(axes)[4].label == "ratio_max=8, lr=0.0002"
    assert grid(axes)[4].overrides == ["algorithm.loss.ratio_max=8", "optimizer.lr=0.0002"]
    assert grid([]) == []


def test_labels_are_as_long_as_it_takes_to_tell_the_keys_apart():
    axes, _ = split_arguments(["eval.every_steps=1,2", "checkpoint.every_steps=1,2", "algorithm.loss.name=a,b"])
    assert grid(axes)[0].label == "eval.every_steps=1, checkpoint.every_steps=1, loss.name=a"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [(["run.steps=5,6,5"], "the value 5 is written twice"), (["a.b=1,2", "a.b=3,4"], "'a.b' spans the grid twice")],
)
def test_a_value_or_key_written_twice_is_an_error(arguments, part):
    with pytest.raises(ConfigError, match=part):
        split_arguments(arguments)


def test_the_baseline_is_named_by_label_or_by_keys():
    axes, _ = split_arguments(["algorithm.loss.ratio_max=4,8", "optimizer.lr=1,2"])
    variants = grid(axes)
    assert find_variant(variants, "ratio_max=8, lr=1") is variants[2]
    assert find_variant(variants, "algorithm.loss.ratio_max=8") is variants[2]
    with pytest.raises(ConfigError, match="'ratio_max=5' is none of the variants; allowed: 'ratio_max=4, lr=1'"):
        find_variant(variants, "ratio_max=5")


@pytest.mark.parametrize(
    ("label", "slug"),
    [("ratio_max=4, lr=0.0001", "ratio_max-4-lr-0.0001"), ("a=-1", "a--1"), ("as it is", "as-it-is")],
)  # fmt: skip
def test_plain_labels_become_file_names(label, slug):
    assert Variant(label, {}).slug == slug


def test_file_names_of_other_labels_are_told_apart_by_a_digest():
    slugs = {Variant(label, {}).slug for label in ("p=a/b", "p=a b/", "p=a:b", "p=[a, b]", "x" * 70, "x" * 71)}
    assert len(slugs) == 6
    assert all(len(slug) <= 67 and "/" not in slug for slug in slugs)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (1e-5, "1e-05"), ([0.9, 1], "[0.9, 1]"), ({"name": "cispo"}, "{name: cispo}")],
)  # fmt: skip
def test_values_are_shown_in_short_yaml(value, text):
    assert show(value) == text
