import json

import pytest
from rich.console import Console

from headrace.report.study import RunFigures, study_rows
from headrace.report.study_table import console_tables, markdown, to_json, verdicts

AFTER = {"ratio_max=4": (0.80, 0.82, 0.84), "ratio_max=8": (0.85, 0.84, 0.92), "a|b": (0.70, 0.70, 0.73)}
LABELS = ["ratio_max=4", "ratio_max=8", "a|b", "broken"]


def figures(**more):
    return [
        RunFigures(
            variant=variant, seed=seed, pass_rate_before=0.41, pass_rate_after=rate, entropy=0.25,
            train_s=7.0 + seed, samples_per_s=500.0, max_lag=seed, **more,
        )
        for variant, rates in AFTER.items()
        for seed, rate in enumerate(rates)
    ]  # fmt: skip


def rows(**more):
    return study_rows(figures(**more), LABELS, "ratio_max=4")


def test_markdown_has_the_worked_numbers():
    text = markdown(rows(), "ratio_max=4", title="a sweep", failures=["broken, seed 0: it broke"])
    lines = text.splitlines()
    assert lines[0] == "# a sweep"
    assert lines[2].count("|") == lines[3].count("|") == 11
    assert lines[4] == (
        "| ratio_max=4 | 3 | 0.410 ± 0.000 | 0.820 ± 0.020 | - | 0.800..0.840 | 0.250 ± 0.000 | 8.0 ± 1.0 | 500 ± 0 "
        "| 2 |"
    )
    assert "| ratio_max=8 | 3 | 0.410 ± 0.000 | 0.870 ± 0.044 | +0.050 (0.017) | 0.840..0.920 |" in lines[5]
    assert lines[6].startswith("| a\\|b | 3 |")
    assert lines[7] == "| broken | 0 | - | - | - | - | - | - | - | - |"
    assert "- Failed: broken, seed 0: it broke" in lines


def test_verdicts_in_words_and_how_many_chance_would_make():
    covered, stands_out, by_chance = verdicts(rows(), "ratio_max=4")
    assert covered == (
        "ratio_max=8 against ratio_max=4: +0.050 (3 seeds, 95% interval -0.025 .. +0.125): the spread covers the "
        "difference."
    )
    # -.10, -.12, -.11: mean -.11, sd .01, half width 4.302653 x .01 / sqrt(3) = .0248
    assert stands_out.endswith(
        "-0.110 (3 seeds, 95% interval -0.135 .. -0.085): the difference stands out of the spread."
    )
    assert by_chance == "2 differences are looked at, each at 95%: by chance alone about 0.1 of them would stand out."


def test_one_seed_says_so():
    (sentence,) = verdicts(
        study_rows([run for run in figures() if run.seed == 1 and run.variant != "a|b"], LABELS, "ratio_max=4"),
        "ratio_max=4",
    )
    assert sentence == "ratio_max=8 against ratio_max=4: +0.020 (1 seed): one seed shows no spread."


@pytest.mark.parametrize(("width", "count"), [(80, 2), (160, 1)])
def test_narrow_terminals_get_two_tables_that_fit(width, count):
    tables = console_tables(rows(), "ratio_max=4", width=width)
    assert len(tables) == count
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        for table in tables:
            console.print(table)
    text = capture.get()
    assert "0.870 ± 0.044" in text
    assert "+0.050 (0.017)" in text
    assert "0.840..0.920" in text


def test_the_positive_share_is_shown_only_where_it_is_known():
    assert "positive" not in markdown(rows(), "ratio_max=4", title="")
    assert "0.450 ± 0.000 |" in markdown(rows(positive_share=0.45), "ratio_max=4", title="")


def test_json_holds_rows_runs_and_verdicts():
    content = json.loads(json.dumps(to_json(rows(), figures(), "ratio_max=4"), allow_nan=False))
    first, second, *_, broken = content["variants"]
    assert (first["variant"], first["difference"], first["verdict"]) == ("ratio_max=4", None, None)
    assert second["difference"]["standard_error"] == pytest.approx(0.0173205, abs=1e-7)
    assert second["verdict"] == "the spread covers the difference"
    assert broken["after"] is None
    assert len(content["runs"]) == 9
