"""Worked values: a run of two attempts, each on a clock of its own."""

from headrace.pipeline.messages import Usage
from headrace.pipeline.totals import Spent, Totals
from headrace.tracking.eval_log import Compute


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def first_attempt() -> tuple[Clock, Totals]:
    """Admissions from 100 s on; at 110 s two steps are done, the generator has worked 6 of 10 s."""
    clock = Clock()
    totals = Totals(clock=clock, num_parameters=50, num_threads=2)
    clock.now = 100.0
    totals.begin({"g": Usage(busy_s=1.0, load_s=0.5, num_tokens=7, num_prefill_tokens=3)})
    totals.step(busy_s=3.0, num_tokens=40, num_trainable=20, flops=1000.0, lag=1)
    totals.step(busy_s=2.0, num_tokens=60, num_trainable=30, flops=1500.0, lag=3)
    totals.see({"g": Usage(busy_s=6.0, load_s=1.5, num_tokens=107, num_prefill_tokens=23)})
    clock.now = 110.0
    return clock, totals


def test_one_attempt() -> None:
    _, totals = first_attempt()
    assert totals.wall_s == 10.0
    assert totals.trainer_idle_frac == 0.5  # 5 of 10 s
    assert totals.generator_idle_frac == 0.4  # 5 s decoding and 1 s taking weights of 10 s
    assert totals.compute() == Compute(
        device_s=20.0,
        flops=2500.0 + 2 * 50 * (100 + 20),
        tokens_generated=100,
        tokens_trained=100,
        steps=2,
    )


def test_utilisation_is_tokens_trained_over_tokens_sampled_in_all_attempts() -> None:
    """20 + 30 of 100 tokens; then 5 more trained of 50 more sampled."""
    _, first = first_attempt()
    assert first.utilisation == 0.5
    totals = Totals(clock=Clock(), num_parameters=50, num_threads=3, before=first.spent())
    assert totals.utilisation == 0.5
    totals.begin({"g": Usage(num_tokens=3)})
    totals.step(busy_s=1.0, num_tokens=10, num_trainable=5, flops=0.0, lag=0)
    totals.see({"g": Usage(num_tokens=53)})
    assert totals.utilisation == 55 / 150
    assert Totals(clock=Clock(), num_parameters=1, num_threads=1).utilisation == 0.0


def test_a_resumed_attempt_goes_on_from_what_was_spent() -> None:
    _, first = first_attempt()
    clock = Clock()
    totals = Totals(clock=clock, num_parameters=50, num_threads=3, before=first.spent())
    assert totals.compute() == first.compute()  # nothing is spent while roles load
    clock.now = 5.0
    totals.begin({"g": Usage(), "h": Usage()})
    totals.step(busy_s=4.0, num_tokens=10, num_trainable=5, flops=500.0, lag=2)
    totals.see({"g": Usage(busy_s=3.0, num_tokens=30), "h": Usage(busy_s=1.0, num_tokens=20, num_prefill_tokens=5)})
    clock.now = 15.0
    assert totals.wall_s == 20.0
    assert totals.trainer_idle_frac == 1 - 9 / 20
    assert totals.generator_idle_frac == 1 - (6 + 4) / (10 + 2 * 10)
    assert totals.compute() == Compute(
        device_s=20.0 + 30.0,
        flops=14500.0 + 500.0 + 2 * 50 * 55,
        tokens_generated=150,
        tokens_trained=110,
        steps=3,
    )
    assert totals.spent().max_lag == 3


def test_nothing_counts_after_the_last_update() -> None:
    clock, totals = first_attempt()
    totals.end({"g": Usage(busy_s=6.0, load_s=1.5, num_tokens=107, num_prefill_tokens=23)})
    before = totals.spent()
    clock.now = 200.0
    totals.see({"g": Usage(busy_s=60.0, num_tokens=1000)})
    totals.end({})
    assert totals.spent() == before
    assert before.wall_s == 10.0


def test_before_the_first_admission_nothing_is_spent() -> None:
    totals = Totals(clock=Clock(), num_parameters=50, num_threads=2)
    assert totals.spent() == Spent()
    assert (totals.trainer_idle_frac, totals.generator_idle_frac) == (0.0, 0.0)
