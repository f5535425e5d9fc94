"""The article's entropy-adaptive clip range (worked-out values), and how a factor moves a range."""

import pytest

from headrace.objectives.adaptive_clip import entropy_clip_factor, scaled_range


@pytest.mark.parametrize(("sign", "clip"), [(1, 0.26), (-1, 0.14)])
def test_low_entropy(sign, clip):
    assert 0.2 * entropy_clip_factor(0.25, target=1.75, alpha=0.2, sign=sign) == pytest.approx(clip)


@pytest.mark.parametrize(("entropy", "factor"), [(None, 1.0), (1.75, 1.0), (2.75, 0.8), (9.0, 0.5)])
def test_factor(entropy, factor):
    assert entropy_clip_factor(entropy, target=1.75, alpha=0.2) == pytest.approx(factor)


def test_factor_is_held_at_twice():
    assert entropy_clip_factor(0.0, target=1.75, alpha=2.0) == 2.0


def test_offsets_are_multiplied_and_of_caps_the_distance_from_one():
    assert scaled_range({"clip_low": 0.2, "clip_high": 0.3, "dual_clip": 3.0}, 1.5) == pytest.approx(
        {"clip_low": 0.3, "clip_high": 0.45, "dual_clip": 3.0}
    )
    assert scaled_range({"ratio_min": 0.8, "ratio_max": 5.0}, 1.5) == pytest.approx({"ratio_min": 0.7, "ratio_max": 7})


def test_upper_side_alone():
    assert scaled_range({"clip_low": 0.2, "clip_high": 0.2}, 0.5, side="high") == {"clip_low": 0.2, "clip_high": 0.1}
    assert scaled_range({"ratio_min": 0.8, "ratio_max": 1.2}, 0.5, side="high") == pytest.approx(
        {"ratio_min": 0.8, "ratio_max": 1.1}
    )


def test_no_lower_cap_stays_none_and_a_cap_never_falls_below_zero():
    assert scaled_range({"ratio_min": 0.0, "ratio_max": 5.0}, 0.5)["ratio_min"] == 0.0
    assert scaled_range({"ratio_min": 0.3, "ratio_max": 5.0}, 2.0)["ratio_min"] == 0.0
