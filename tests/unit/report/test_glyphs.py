import pytest

from headrace.report.glyphs import ASCII, UNICODE, clock_time, figure, glyphs_for, percent, sparkline, thousands


def test_sparkline_has_a_fixed_scale() -> None:
    assert sparkline([0.0, 0.5, 0.99, 1.0], 8) == "▁▅██"
    assert sparkline([-1.0, 2.0], 8) == "▁█"


def test_sparkline_averages_longer_series() -> None:
    assert sparkline([0.0, 1.0, 1.0, 1.0], 2, bars="01234567") == "47"
    assert len(sparkline([0.5] * 1001, 16)) == 16
    assert sparkline([], 5) == sparkline([0.5], 0) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.4, "0"), (999.4, "999"), (999.6, "1.0k"), (12345, "12.3k"), (123456, "123k"), (1.2e6, "1.20M")],
)
def test_thousands(value: float | None, text: str) -> None:
    assert thousands(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3725, "1:02:05")]
)
def test_clock_time(seconds: float | None, text: str) -> None:
    assert clock_time(seconds) == text


def test_unknown_figures_are_a_dash() -> None:
    assert (figure(None), figure(float("nan")), percent(None), percent(0.034)) == ("-", "-", "-", "3 %")


def test_a_console_without_unicode_gets_plain_signs() -> None:
    assert glyphs_for("utf-8") == glyphs_for("UTF_8") == UNICODE
    assert glyphs_for("ascii") == ASCII
    assert "".join(ASCII).isascii()
