from dataclasses import replace

from headrace.report.forecast_words import forecast_line
from headrace.scaling.made import MadeForecast

MADE = MadeForecast(
    version=30, compute=80.0, unit="device_s", target_step=60, target_compute=160.0, num_points=9, value=0.5971,
    interval=(0.5896, 0.6049), level=0.9, identified=True, A=0.612, B=1.9, C_mid=40.0, R0=0.25,
    interval_A=(0.596, 0.6173),
)  # fmt: skip


def test_forecast_and_ceiling() -> None:
    assert forecast_line(MADE) == "0.597 (0.590..0.605) at step 60, ceiling 0.612 (0.596..0.617)"


def test_the_first_reason_without_its_explanation() -> None:
    reasons = ("the largest compute, 80, is below C_mid = 90: less than half the rise was seen", "the run falls: x")
    made = replace(MADE, identified=False, value=None, interval=None, reasons=reasons)
    assert forecast_line(made) == "not yet: the largest compute, 80, is below C_mid = 90"
