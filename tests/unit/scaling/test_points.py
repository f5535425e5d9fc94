import numpy as np
import pytest

from headrace.errors import DataError
from headrace.scaling import checked_points, fit_curve
from headrace.scaling.points import check_same_unit

C = [0.0, 100, 200, 300, 400, 500, 600]
Y = [0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.52]


def test_points_are_ordered_and_one_number_serves_all():
    points = checked_points([2, 0, 1], [0.3, 0.1, 0.2], n=50)
    assert points.compute.tolist() == [0, 1, 2]
    assert points.score.tolist() == [0.1, 0.2, 0.3]
    assert points.n.tolist() == [50, 50, 50]


def test_the_window_keeps_the_start():
    points = checked_points(C, Y)
    assert points.window(200, 400).compute.tolist() == [0, 200, 300, 400]
    assert points.beyond(400).compute.tolist() == [500, 600]


def changed(values, place, value):
    values = list(values)
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("compute", "score", "options", "said"),
    [
        (changed(C, 2, -5), Y, {}, "compute is negative: -5 in row 3"),
        (changed(C, 1, np.nan), Y, {}, "compute is not a finite number: nan in row 2"),
        (changed(C, 1, np.inf), Y, {}, "compute is not a finite number"),
        (C, changed(Y, 3, np.nan), {}, "score is not a finite number: nan in row 4"),
        (C, changed(Y, 3, 1.2), {}, "score is outside 0..1"),
        (C, changed(Y, 3, -0.1), {}, "score is outside 0..1"),
        (C, [100 * y for y in Y], {}, "not percent"),
        (C, Y[:-1], {}, "7 values of compute but 6 scores"),
        (C, Y, {"n": 0}, "n is below 1"),
        (C, Y, {"error": [0.01] * 3}, "7 points but 3 values of error"),
        (C, Y, {"error": 0.0}, "error is not above 0"),
        (changed(C, 1, 0), Y, {}, "2 rows at compute 0 have different scores (0.1, 0.2)"),
        (C[:2], Y[:2], {}, "2 points are too few"),
        ([0, 1, 1, 1, 2, 2, 2], Y, {}, "fewer than 4 different amounts"),
        (["a"] * 7, Y, {}, "not a list of numbers"),
        ([C, C], Y, {}, "one-dimensional"),
    ],
)
def test_bad_input_is_an_error_that_says_where(compute, score, options, said):
    with pytest.raises(DataError) as error:
        fit_curve(compute, score, **options)
    assert said in str(error.value)


def test_the_same_start_twice_counts_once():
    assert len(checked_points([0, 0, 1], [0.1, 0.1, 0.2])) == 2


def test_mixed_units_are_an_error():
    runs = [checked_points(C, Y, unit="tokens", name="a"), checked_points(C, Y, unit="steps", name="b")]
    with pytest.raises(DataError, match=r"'tokens' in a"):
        check_same_unit(runs)
