"""What a recipe's schedules and environment become."""

import pytest

from headrace.build import environment_of, lag_bound, sampling_temperature
from headrace.config.load import load
from headrace.models.locate import resolve_model
from headrace.tasks.interrupted import Interrupted
from headrace.tasks.single_turn import SingleTurn
from headrace.tasks.text import TextCodec


def recipe(*overrides):
    return load("demo", ("run.steps=10", "async.max_lag=8", *overrides)).recipe


def test_a_bound_without_schedule_stays():
    assert [lag_bound(recipe())(step) for step in (0, 9)] == [8, 8]


def test_a_bound_that_is_halved_in_the_last_fifth():
    bound = lag_bound(recipe("async.schedule.end=4"))
    assert [bound(step) for step in range(10)] == [8] * 8 + [4, 4]


def test_a_bound_that_falls_evenly():
    """8 - 6 step / 9, rounded down."""
    bound = lag_bound(recipe("async.schedule.end=2", "async.schedule.shape=linear"))
    assert [bound(step) for step in range(10)] == [8, 7, 6, 6, 5, 4, 4, 3, 2, 2]


def test_temperature_by_step():
    assert [sampling_temperature(recipe("sampling.temperature=0.7"))(s) for s in (0, 9)] == [0.7, 0.7]
    linear = sampling_temperature(recipe("sampling.schedule.end=0.1"))
    assert [linear(step) for step in (0, 3, 9, 12)] == pytest.approx([1.0, 0.7, 0.1, 0.1])
    parts = ("sampling.schedule.end=0.5", "sampling.schedule.shape=final", "sampling.schedule.final_frac=0.3")
    assert [sampling_temperature(recipe(*parts))(step) for step in (0, 6, 7, 9)] == [1.0, 1.0, 0.5, 0.5]


def test_the_environment_a_recipe_asks_for():
    codec = TextCodec(resolve_model("bundled").folder)
    interrupted = ("low=6", "high=10", 'text="#"', "answer_tokens=8")
    assert isinstance(environment_of(recipe(), codec), SingleTurn)
    asked = recipe(*(f"algorithm.interruption.{key}" for key in interrupted))
    assert isinstance(environment_of(asked, codec), Interrupted)
