import inspect
import re

import pytest

from headrace.health import rules
from headrace.health.monitor import HealthMonitor
from headrace.health.rules import check_health
from headrace.metrics.names import METRICS

HEALTHY = {
    "reward/pass_rate": 0.6,
    "rollout/truncated_frac": 0.02,
    "rollout/all_right_frac": 0.3,
    "rollout/all_wrong_frac": 0.1,
    "rollout/lag_max": 4.0,
    "loss/entropy": 0.3,
    "loss/clip_frac_low": 0.2,
    "loss/clip_frac_high": 0.2,
    "loss/advantage_outlier_frac": 0.004,
    "loss/advantage_abs_max": 3.75,
    "loss/mismatch_kl": -1e-7,
    "trainer/idle_frac": 0.1,
    "generator/idle_frac": 0.2,
    "verifier/error_frac": 0.0,
}


def found(changes: dict[str, float], start: dict[str, float] | None = None) -> list[tuple[str, str]]:
    return [(a.level, a.name) for a in check_health([{**HEALTHY, **changes}] * 5, start)]


def test_a_healthy_run_has_nothing_to_say() -> None:
    assert found({}, start={"loss/entropy": 0.4}) == []
    assert check_health([{}] * 5) == []


@pytest.mark.parametrize(
    ("changes", "level", "name"),
    [
        ({"rollout/truncated_frac": 0.11}, "alarm", "truncation"),
        ({"rollout/all_right_frac": 0.51}, "info", "prompts too easy"),
        ({"rollout/all_wrong_frac": 0.51}, "warning", "prompts too hard"),
        ({"verifier/error_frac": 0.011}, "alarm", "verifier errors"),
        ({"loss/clip_frac_low": 0.31}, "alarm", "clipping"),
        ({"loss/advantage_outlier_frac": 0.011}, "warning", "advantage outliers"),
        ({"loss/advantage_abs_max": 101.0}, "alarm", "advantage size"),
        ({"loss/mismatch_kl": 0.02}, "warning", "engine and trainer disagree"),
        ({"loss/mismatch_kl": -0.2}, "alarm", "engine and trainer disagree"),
        ({"rollout/lag_max": 12.5}, "warning", "lag"),
        ({"trainer/idle_frac": 0.61}, "warning", "trainer idle"),
        ({"generator/idle_frac": 0.61}, "warning", "generator idle"),
        ({"tracking/num_unwritten_rollouts": 256.0}, "warning", "disk full"),
    ],
)
def test_just_above_each_threshold(changes: dict[str, float], level: str, name: str) -> None:
    assert found(changes) == [(level, name)]


@pytest.mark.parametrize(
    "changes",
    [
        {"rollout/truncated_frac": 0.10},
        {"rollout/lag_max": 12.0},
        {"verifier/error_frac": 0.01},
        {"loss/clip_frac_low": 0.3, "loss/clip_frac_high": 0.2},
        {"trainer/idle_frac": 0.60, "generator/idle_frac": 0.60},
        {"loss/advantage_outlier_frac": 0.01, "loss/advantage_abs_max": 100.0},
    ],
)
def test_at_a_threshold_there_is_silence(changes: dict[str, float]) -> None:
    assert found(changes) == []


def test_a_ratio_held_at_a_cap_on_either_side_counts_as_clipped() -> None:
    held = {"loss/clip_frac_low": 0, "loss/clip_frac_high": 0, "loss/ratio_capped_frac": 0.3}
    assert found(held | {"loss/ratio_raised_frac": 0.2}) == []
    assert found(held | {"loss/ratio_raised_frac": 0.21}) == [("alarm", "clipping")]


def test_a_lone_success_in_a_group_of_16_is_no_outlier_until_many_groups_are_like_that() -> None:
    # One token in 16 of such a group stands at 3.75: a tenth of the groups make .6 % of the tokens, a fifth 1.25 %.
    assert found({"loss/advantage_outlier_frac": 0.1 / 16}) == []
    assert found({"loss/advantage_outlier_frac": 0.2 / 16}) == [("warning", "advantage outliers")]


def test_rare_failures_on_a_solved_task_are_no_outliers() -> None:
    # At a pass rate of .95 whitened failures stand at -.95 / .218 = -4.4: 5 % of the tokens.
    assert found({"loss/advantage_outlier_frac": 0.05, "reward/pass_rate": 0.95}) == []
    assert found({"loss/advantage_outlier_frac": 0.05, "reward/pass_rate": 0.89}) == [("warning", "advantage outliers")]


def test_entropy_is_compared_with_the_start_and_may_fall_on_a_solved_task() -> None:
    start = {"loss/entropy": 0.4}
    assert found({"loss/entropy": 0.081}, start) == []
    assert found({"loss/entropy": 0.079}, start) == [("alarm", "entropy")]
    assert found({"loss/entropy": 0.079, "reward/pass_rate": 0.93}, start) == [("info", "entropy")]
    rising = start | {"reward/pass_rate": 0.40}
    assert found({"loss/entropy": 0.05, "reward/pass_rate": 0.56}, rising) == [("info", "entropy")]
    assert found({"loss/entropy": 0.05, "reward/pass_rate": 0.54}, rising) == [("alarm", "entropy")]
    assert found({"loss/entropy": 0.001}) == []  # no start, no verdict: small vocabularies are normally this low


def test_the_window_decides_not_one_step() -> None:
    odd = {**HEALTHY, "rollout/truncated_frac": 0.4}
    assert check_health([HEALTHY] * 9 + [odd]) == []
    assert check_health([odd] * 4) == []  # too few steps to say anything


def test_null_and_nan_figures_are_skipped() -> None:
    window = [{"rollout/truncated_frac": float("nan")}] * 5 + [{"rollout/truncated_frac": None}]  # type: ignore[dict-item]
    assert check_health(window) == []  # type: ignore[arg-type]


def test_the_most_serious_comes_first_and_says_what_to_do() -> None:
    alerts = check_health([{**HEALTHY, "rollout/all_right_frac": 0.9, "rollout/truncated_frac": 0.5}] * 5)
    assert [a.level for a in alerts] == ["alarm", "info"]
    assert alerts[0].evidence == "50% of completions hit the token limit (threshold 10%)"
    assert str(alerts[0]).startswith("alarm: truncation: 50% of completions")
    assert all(a.cause and a.fix for a in alerts)


def test_rules_read_only_metrics_that_exist() -> None:
    named = re.findall(r'"([a-z]+/[a-z_]+)"', inspect.getsource(rules))
    assert named
    assert set(named) <= set(METRICS)


def test_the_monitor_says_a_thing_once_and_again_after_it_went_away() -> None:
    monitor = HealthMonitor(window=5)
    bad = {**HEALTHY, "rollout/truncated_frac": 0.5}
    said = [bool(monitor.observe(m)) for m in [bad] * 8]
    assert said == [False] * 4 + [True] + [False] * 3
    assert [a.name for a in monitor.active] == ["truncation"]
    for _ in range(5):
        assert monitor.observe(HEALTHY) == []
    assert monitor.active == []
    assert any(monitor.observe(bad) for _ in range(5))


def test_the_monitor_takes_the_start_from_the_first_three_steps() -> None:
    monitor = HealthMonitor(window=5)
    for value in (0.3, 0.4, 0.5, 0.1, 0.1):
        monitor.observe({"loss/entropy": value})
    assert monitor.start == {"loss/entropy": pytest.approx(0.4)}


def test_a_full_disk_is_told_by_what_was_not_written_and_over_once_it_was() -> None:
    full = {**HEALTHY, "tracking/num_unwritten_metrics": 3.0, "tracking/num_unwritten_rollouts": 512.0}
    (alert,) = check_health([HEALTHY] * 4 + [full])
    assert alert.evidence == "not written for want of space: 3 lines of metrics, 512 completions"
    assert check_health([full] * 4 + [HEALTHY]) == []
