from headrace.metrics.names import METRICS
from headrace.tracking.aliases import ALIASES, add_aliases


def test_familiar_names_are_added_and_ours_kept() -> None:
    named = add_aliases({"reward/mean": 0.4, "loss/entropy": 0.1, "own/figure": 3.0})
    assert named == {
        "reward/mean": 0.4,
        "reward": 0.4,
        "critic/score/mean": 0.4,
        "loss/entropy": 0.1,
        "entropy": 0.1,
        "actor/entropy": 0.1,
        "own/figure": 3.0,
    }


def test_the_two_clip_sides_make_the_one_fraction_others_know() -> None:
    named = add_aliases({"loss/clip_frac_low": 0.1, "loss/clip_frac_high": 0.25})
    assert named["clip_ratio/region_mean"] == named["actor/pg_clipfrac"] == 0.35
    assert (named["clip_ratio/low_mean"], named["clip_ratio/high_mean"]) == (0.1, 0.25)


def test_a_name_already_there_is_not_overwritten() -> None:
    assert add_aliases({"loss/entropy": 0.1, "entropy": 9.0})["entropy"] == 9.0


def test_about_twenty_figures_all_of_them_ours_and_no_name_given_twice() -> None:
    assert len(ALIASES) >= 20
    assert set(ALIASES) - set(METRICS) == {"loss/clip_frac"}
    for column in (0, 1):
        names = [alias[column] for alias in ALIASES.values() if alias[column] is not None]
        assert len(names) == len(set(names))
