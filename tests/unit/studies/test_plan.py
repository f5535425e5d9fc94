import pytest

from headrace.errors import ConfigError
from headrace.studies.plan import parse_seeds, plan
from headrace.studies.variant import Variant

BOUNDS = [Variant(f"ratio_max={v}", {"algorithm.loss.ratio_max": v}) for v in (4, 8)]


def test_all_variants_of_the_first_seed_come_first():
    jobs = plan("demo", ["run.steps=15"], BOUNDS, (3, 1))
    assert [job.name for job in jobs] == [
        "ratio_max-4-seed3", "ratio_max-8-seed3", "ratio_max-4-seed1", "ratio_max-8-seed1",
    ]  # fmt: skip
    assert [(job.recipe.run.seed, job.recipe.algorithm.loss.ratio_max) for job in jobs] == [
        (3, 4),
        (3, 8),
        (1, 4),
        (1, 8),
    ]
    assert {job.recipe.run.steps for job in jobs} == {15}


def test_sections_and_shorthands_go_through_the_recipe_loader():
    variants = [
        Variant("short", {"algorithm.loss": "ppo_clip"}),
        Variant("section", {"algorithm.loss": {"name": "ppo_clip", "clip_high": 0.28}}),
        Variant("part of one", {"algorithm.loss": {"ratio_max": 3}}),
        Variant("a part that was null", {"algorithm.kl": {"coef": 0.01}}),
    ]
    short, section, part, kl = (job.recipe.algorithm for job in plan("demo", [], variants, (0,)))
    assert (short.loss.name, short.loss.clip_high) == ("ppo_clip", 0.2)
    assert (section.loss.name, section.loss.clip_high) == ("ppo_clip", 0.28)
    assert (part.loss.name, part.loss.ratio_max) == ("cispo", 3)
    assert kl.kl.coef == 0.01


def test_every_wrong_variant_is_named_with_its_mistake():
    variants = [
        *BOUNDS,
        Variant("ratio_max=-1", {"algorithm.loss.ratio_max": -1}),
        Variant("loss=cispoo", {"algorithm.loss": "cispoo"}),
    ]
    with pytest.raises(ConfigError) as caught:
        plan("demo", [], variants, (0,))
    first, second = str(caught.value).split("\n")
    assert first.startswith("variant 'ratio_max=-1': override: algorithm.loss.ratio_max: found -1")
    assert second.startswith("variant 'loss=cispoo': ")
    assert "Did you mean 'cispo'?" in second


def test_a_mistake_in_what_all_share_is_told_once():
    with pytest.raises(ConfigError, match=r"^override 'run.stepss=15': .*Did you mean 'run.steps'\?$"):
        plan("demo", ["run.stepss=15"], BOUNDS, (0,))


def test_two_variants_that_come_to_the_same_recipe_are_an_error():
    twin = Variant("again", {"algorithm.loss": {"ratio_max": 4.0}})
    with pytest.raises(ConfigError, match="variant 'again': the same recipe as variant 'ratio_max=4'"):
        plan("demo", [], [*BOUNDS, twin], (0,))


@pytest.mark.parametrize("where", ["fixed", "grid"])
def test_the_seed_is_not_an_override(where):
    variants = [Variant("seed=1", {"run.seed": 1})] if where == "grid" else BOUNDS
    with pytest.raises(ConfigError, match="set by --seeds"):
        plan("demo", ["run.seed=1"] if where == "fixed" else [], variants, (0,))


def test_seeds():
    assert parse_seeds("0, 12,3") == (0, 12, 3)
    for text, part in (("0,-1", "whole numbers >= 0"), ("", "whole numbers"), ("1,1", "written twice")):
        with pytest.raises(ConfigError, match=part):
            parse_seeds(text)
