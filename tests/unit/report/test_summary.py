import json
import math
from pathlib import Path

import pytest

from headrace.errors import DataError
from headrace.report.summary import RunSummary, read_summary, write_summary

SUMMARY = RunSummary(
    pass_rate_before=0.338, pass_rate_after=None, wall_s=112.0, train_wall_s=81.5, num_steps=120, max_lag_trained=4,
    trainer_idle_frac=0.03, generator_idle_frac=0.12, num_orphans=0, seed=7, extra={"compute": {"flops": 1e9}},
)  # fmt: skip


def test_written_flat_and_read_back(tmp_path: Path) -> None:
    path = write_summary(tmp_path, SUMMARY)
    row = json.loads(path.read_text())
    assert (row["seed"], row["pass_rate_after"], row["compute"]) == (7, None, {"flops": 1e9})
    assert "extra" not in row
    assert read_summary(tmp_path) == SUMMARY
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_non_finite_figures_become_null(tmp_path: Path) -> None:
    from dataclasses import replace

    write_summary(tmp_path, replace(SUMMARY, pass_rate_before=math.nan))
    assert read_summary(tmp_path).pass_rate_before is None


def test_extra_may_not_replace_a_figure(tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="seed"):
        write_summary(tmp_path, replace(SUMMARY, extra={"seed": 1}))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "has no summary.json"), ("{", "is not JSON"), ('{"seed": 1}', "lacks pass_rate_before, .*num_orphans")],
)
def test_what_is_not_a_summary_is_named(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_summary(tmp_path)
