import io
from dataclasses import replace

import pytest
from rich.console import Console

from headrace.health.alert import Alert
from headrace.metrics.evaluation import Example
from headrace.report.final_text import duration, pick_pair, print_final
from headrace.report.summary import RunSummary
from tests.unit.report.test_forecast_words import MADE

SUMMARY = RunSummary(
    pass_rate_before=0.338, pass_rate_after=0.931, wall_s=112.0, train_wall_s=81.0, num_steps=120, max_lag_trained=3,
    trainer_idle_frac=0.03, generator_idle_frac=0.12, num_orphans=0, seed=0,
)  # fmt: skip


def example(number: int, completion: str, passed: bool) -> Example:
    return Example(prompt_id=f"p{number}", prompt=f"{number}+1=", completion=completion, answer="9", passed=passed)


def printed(summary: RunSummary = SUMMARY, **options: object) -> str:
    out = io.StringIO()
    print_final(Console(file=out, width=80), summary, run_folder="runs/demo-1", **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_everything_a_newcomer_is_promised() -> None:
    pair = (example(1, "#8", False), example(1, "8+1=9#9", True))
    text = printed(curve="runs/demo-1/curve.png", pair=pair, max_lag=4)
    for part in (
        "held-out pass rate   0.338 → 0.931  (+0.593)", "1 min 52 s, 1 min 21 s of it training",
        "trainer idle         3 %",
        "generator idle       12 %", "largest lag trained  3 (bound 4)", "run folder           runs/demo-1",
        "runs/demo-1/curve.png", "1+1=  (answer 9)", "before: wrong", "after: right", "│ #8", "│ 8+1=9#9",
    ):  # fmt: skip
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "orphans" not in text


def test_what_went_wrong_is_said() -> None:
    alert = Alert(level="alarm", name="truncation", evidence="50% hit the limit", cause="Too long.", fix="Raise it.")
    text = printed(replace(SUMMARY, num_orphans=2, pass_rate_after=None), alerts=[alert])
    assert "2 processes of the run are still alive" in text
    assert "0.338 → -" in text
    assert "alarm: truncation: 50% hit the limit. Too long. Raise it." in text


def test_an_identified_ceiling_is_said() -> None:
    assert "estimated ceiling    0.612 (0.596..0.617), of 9 evaluations" in printed(fit=MADE)
    assert "ceiling" not in printed(fit=replace(MADE, identified=False, reasons=("too few",)))


def test_model_text_cannot_write_to_the_terminal() -> None:
    pair = (example(1, "\x1b[31mred[/bold] [link]", False), example(1, "x" * 5000, True))
    text = printed(pair=pair)
    assert "\x1b" not in text
    assert "?[31mred[/bold] [link]" in text
    assert "[...]" in text


def test_an_ascii_console_can_print_it() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=80)
    print_final(console, SUMMARY, run_folder="r", pair=(example(1, "#8", False), example(1, "#9", True)))
    assert b"0.338 -> 0.931" in raw.getvalue()


def test_the_pair_shown_is_one_that_was_wrong_and_is_right() -> None:
    before = [example(1, "a", True), example(2, "b", False), example(3, "c", False)]
    after = [example(1, "d", True), example(2, "e", False), example(3, "f", True), example(4, "g", True)]
    assert pick_pair(before, after) == (before[2], after[2])
    assert pick_pair(before[:2], after) == (before[0], after[0])
    assert pick_pair(before, []) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.25, "4.2 s"), (48.4, "48 s"), (112, "1 min 52 s"), (7500, "2 h 05 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
