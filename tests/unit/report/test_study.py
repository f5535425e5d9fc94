import math

import pytest

from headrace.report.study import RunFigures, band, paired_difference, spread, study_rows


def test_spread_has_the_sample_standard_deviation():
    found = spread([0.80, 0.82, None, 0.84, math.nan])
    assert (found.low, found.high, found.count) == (0.80, 0.84, 3)
    assert found.mean == pytest.approx(0.82, abs=1e-15)
    assert found.sd == pytest.approx(0.02, abs=1e-15)  # sqrt((.02^2 + 0 + .02^2) / 2)


def test_spread_of_one_value_and_of_none():
    assert (spread([0.7]).mean, spread([0.7]).sd) == (0.7, None)
    assert spread([None, math.inf]) is None


def test_difference_is_paired_by_seed():
    # seeds 0, 1, 2: +.05, +.03, +.07; mean .05, sd .02, error .02 / sqrt(3); t(2) at 95 % is 4.302653
    found = paired_difference({0: 0.85, 1: 0.85, 2: 0.91, 7: 0.0}, {2: 0.84, 0: 0.80, 1: 0.82})
    assert found.seeds == (0, 1, 2)
    assert found.mean == pytest.approx(0.05, abs=1e-15)
    assert found.standard_error == pytest.approx(0.0115470, abs=1e-7)
    assert found.half_width == pytest.approx(0.0496828, abs=1e-6)
    assert found.in_words() == "the difference stands out of the spread"


def test_the_spread_covers_a_difference_within_its_interval():
    # +.05, +.02, +.08: mean .05 as before, sd .03, half width 4.302653 x .03 / sqrt(3) = .0745241
    found = paired_difference({0: 0.85, 1: 0.84, 2: 0.92}, {0: 0.80, 1: 0.82, 2: 0.84})
    assert found.half_width == pytest.approx(0.0745241, abs=1e-6)
    assert found.in_words() == "the spread covers the difference"


def test_two_seeds_have_one_degree_of_freedom():
    # +.1 and +.2: sd .0707107, error .05, t(1) = 12.7062
    found = paired_difference({0: 0.5, 1: 0.6}, {0: 0.4, 1: 0.4})
    assert found.standard_error == pytest.approx(0.05, abs=1e-12)
    assert found.half_width == pytest.approx(0.635310, abs=1e-5)
    assert found.covered is True


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ({0: 0.6}, "one seed shows no spread"),
        ({0: 0.6, 1: 0.7}, "the same difference at every seed"),
        ({0: 0.5, 1: 0.6}, "no difference at any seed"),
    ],
)
def test_without_a_spread_nothing_is_claimed(variant, words):
    found = paired_difference(variant, {0: 0.5, 1: 0.6})
    assert (found.standard_error, found.covered, found.in_words()) == (None, None, words)


def test_no_difference_without_a_seed_in_common():
    assert paired_difference({0: 0.6}, {1: 0.5}) is None


def runs():
    def run(variant, seed, after, **figures):
        return RunFigures(variant=variant, seed=seed, pass_rate_before=0.4, pass_rate_after=after, **figures)

    return [
        run("a", 0, 0.80, train_s=10.0, max_lag=1, entropy=0.2),
        run("a", 1, 0.90, train_s=14.0, max_lag=3, entropy=0.4),
        run("b", 1, 0.85, train_s=None, max_lag=2, positive_share=0.45),
        run("b", 0, None),
    ]


def test_one_row_a_variant_in_the_order_given():
    a, b, c = study_rows(runs(), ["a", "b", "c"], "a")
    assert (a.variant, a.seeds, a.max_lag, a.difference, a.positive_share) == ("a", (0, 1), 3, None, None)
    assert (a.train_s.mean, a.entropy.mean) == (12.0, pytest.approx(0.3))
    assert a.after.sd == pytest.approx(0.0707107, abs=1e-7)
    assert (b.seeds, b.after.count, b.train_s, b.positive_share.mean) == ((0, 1), 1, None, 0.45)
    assert (b.difference.seeds, b.difference.mean) == ((1,), pytest.approx(-0.05))
    assert (c.seeds, c.after, c.max_lag, c.difference) == ((), None, None, None)


def test_without_a_finished_baseline_there_are_no_differences():
    (row,) = study_rows([run for run in runs() if run.variant == "b"], ["b"], "a")
    assert (row.difference, row.after.mean) == (None, 0.85)


def test_band_is_over_the_steps_all_runs_have():
    found = band([{0: 0.4, 5: 0.6, 10: 0.8}, {0: 0.5, 10: 1.0, 15: 1.0}])
    assert found.steps == (0, 10)
    assert found.mean == pytest.approx((0.45, 0.9))
    assert (found.low, found.high) == ((0.4, 0.8), (0.5, 1.0))
    assert band([]).steps == ()
