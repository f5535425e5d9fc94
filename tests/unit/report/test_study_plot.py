import numpy as np
import pytest

from headrace.report.study import RunFigures
from headrace.report.study_plot import STYLES, write_curves


def run(variant, seed, rise, evals=(0, 5, 10)):
    return RunFigures(
        variant=variant, seed=seed, pass_rate_after=0.4 + rise,
        held_out={step: 0.4 + rise * step / 10 for step in evals},
        training={step: 0.4 + rise * step / 10 for step in range(1, 11)},
    )  # fmt: skip


def pixels(path):
    from matplotlib.image import imread

    return imread(path)


@pytest.mark.parametrize("variants", [1, 2, 9])
def test_a_picture_of_any_number_of_variants(variants, tmp_path):
    names = [f"v={number}" for number in range(variants)]
    runs = [run(name, seed, 0.05 * number + 0.1 * seed) for number, name in enumerate(names) for seed in (0, 1)]
    path = write_curves(tmp_path / "curves.png", runs, [*names, "failed"], "v=0", title="a sweep")
    assert pixels(path).shape[:2] == (720, 1425)
    assert [file.name for file in tmp_path.iterdir()] == ["curves.png"]


def test_too_few_evaluations_draw_the_training_curves(tmp_path):
    many = [run("a", 0, 0.5)]
    few = [run("a", 0, 0.5, evals=(0, 10))]
    pictures = [pixels(write_curves(tmp_path / f"{i}.png", runs, ["a"], "a")) for i, runs in enumerate((many, few))]
    assert not np.array_equal(*pictures)


def test_nothing_to_draw_is_an_empty_picture(tmp_path):
    assert pixels(write_curves(tmp_path / "none.png", [], ["a"], "a")).shape[:2] == (720, 1425)


def test_lines_and_markers_alone_tell_variants_apart():
    assert len({(str(line), marker) for _, line, marker in STYLES}) == len(STYLES)
    assert len({marker for _, _, marker in STYLES}) == len(STYLES)
