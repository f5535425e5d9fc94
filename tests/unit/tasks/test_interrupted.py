"""Two calls for an interrupted completion, and what a recipe's texts are in the model's tokens."""

import asyncio

import numpy as np
import pytest

from headrace.config.sections import Recipe
from headrace.curation.interruption import Interruption
from headrace.errors import ConfigError, DataError
from headrace.models.locate import resolve_model
from headrace.records import Completion, Prompt
from headrace.tasks.interrupted import Interrupted, interruption_of
from headrace.tasks.text import TextCodec

PROMPT = Prompt(prompt_id="p", source="t", text="", token_ids=np.array([1, 2], np.int32), row={})
RULE = Interruption(low=3, high=3, injected_ids=(8, 7), closing_ids=(7,), answer_tokens=4)


class Scripted:
    """Gives prepared parts and remembers what it was asked."""

    temperature = 0.6

    def __init__(self, *parts):
        self.parts, self.asked = list(parts), []

    async def generate(self, prefix_ids, *, max_tokens=None, stop_token_ids=None):
        self.asked.append((prefix_ids.tolist(), max_tokens))
        ids, finish, version = self.parts.pop(0)
        n = len(ids)
        return Completion(
            request_id="", token_ids=np.array(ids, np.int32), logprob=np.full(n, -0.5, np.float32),
            policy_version=np.full(n, version, np.int32), finish_reason=finish, lineage=2,
        )  # fmt: skip


def run(*parts):
    sampler = Scripted(*parts)
    (rollout,) = asyncio.run(Interrupted(RULE).run(PROMPT, sampler, group_id="g", seed=5))
    assert (rollout.rollout_id, rollout.group_id, rollout.seed, rollout.temperature) == ("g/5", "g", 5, 0.6)
    assert rollout.lineage == 2
    return rollout, sampler.asked


def test_thinking_that_runs_into_its_budget_is_interrupted():
    rollout, asked = run(([4, 5, 6], "length", 3), ([9, 0], "stop", 4))
    assert asked == [([1, 2], 3), ([1, 2, 4, 5, 6, 8, 7], 4)]
    assert rollout.token_ids.tolist() == [1, 2, 4, 5, 6, 8, 7, 9, 0]
    assert rollout.trainable.tolist() == [False] * 2 + [True] * 3 + [False] * 2 + [True] * 2
    assert rollout.policy_version.tolist() == [-1, -1, 3, 3, 3, -1, -1, 4, 4]
    assert rollout.finish_reason == "interrupted"


def test_what_closed_its_thoughts_goes_on_with_nothing_put_in():
    rollout, asked = run(([4, 7, 6], "length", 3), ([9, 0], "stop", 3))
    assert asked == [([1, 2], 3), ([1, 2, 4, 7, 6], 4)]
    assert rollout.token_ids.tolist() == [1, 2, 4, 7, 6, 9, 0]
    assert rollout.trainable.tolist() == [False] * 2 + [True] * 5
    assert rollout.finish_reason == "stop"


@pytest.mark.parametrize("finish", ["stop", "abort"])
def test_what_ends_before_its_budget_is_a_single_turn(finish):
    rollout, asked = run(([4, 0], finish, 3))
    assert asked == [([1, 2], 3)]
    assert rollout.token_ids.tolist() == [1, 2, 4, 0]
    assert rollout.finish_reason == finish


@pytest.mark.parametrize("finish", ["length", "abort"])
def test_an_interrupted_answer_that_does_not_end_by_itself_says_how(finish):
    rollout, _ = run(([4, 5, 6], "length", 3), ([9, 9], finish, 3))
    assert rollout.finish_reason == finish


# ---- a recipe's texts ----


@pytest.fixture(scope="module")
def bundled():
    return TextCodec(resolve_model("bundled").folder)


def recipe(limit=64, **keys):
    part = {"low": 6, "high": 10, "text": "#", "answer_tokens": 8, **keys}
    return Recipe.model_validate(
        {"sampling": {"max_completion_tokens": limit}, "algorithm": {"interruption": part}}, strict=False
    )


def test_no_interruption(bundled):
    assert interruption_of(Recipe(), bundled) is None


def test_texts_become_the_models_tokens(bundled):
    rule = interruption_of(recipe(text="=#", closing="#"), bundled)
    assert rule == Interruption(low=6, high=10, injected_ids=(17, 18), closing_ids=(18,), answer_tokens=8)


def test_the_usual_mark_and_none(bundled):
    assert len(interruption_of(recipe(), bundled).closing_ids) == len("</think>")  # one token a character here
    assert interruption_of(recipe(closing=None), bundled).closing_ids == ()


@pytest.mark.parametrize(("key", "allowed"), [("text", "another text"), ("closing", "another mark, or null")])
def test_characters_without_a_token_are_named(bundled, key, allowed):
    with pytest.raises(DataError) as error:
        interruption_of(recipe(**{key: "Time is Up"}), bundled)
    assert f"algorithm.interruption.{key}: " in str(error.value)
    assert "no token for 'T', 'U' in the text 'Time is Up'" in str(error.value)
    assert f"Allowed: {allowed}." in str(error.value)


@pytest.mark.parametrize("key", ["text", "closing"])
def test_a_token_that_ends_completions_cannot_be_put_in_or_waited_for(bundled, key):
    with pytest.raises(DataError, match=f"interruption.{key} '#<eos>' contains '<eos>', which ends a completion"):
        interruption_of(recipe(**{key: "#<eos>"}), bundled)


def test_room_is_counted_in_tokens(bundled):
    """10 + 5 + 8 = 23; by characters the recipe alone cannot know."""
    assert interruption_of(recipe(limit=23, text="stop#"), bundled).max_tokens == 23
    with pytest.raises(ConfigError, match=r"up to 23 tokens \(high 10 \+ 5 of the injected text \+ answer_tokens 8\)"):
        interruption_of(recipe(limit=22, text="stop#"), bundled)


def test_a_text_inside_gets_no_beginning_and_no_end(make_folder):
    codec = TextCodec(make_folder(adds_bos=True, adds_eos=True))
    assert codec.encode("ab").tolist() == [256, *codec.encode_inside("ab").tolist()]
    assert len(codec.encode_inside("aé")) == 3  # é is two bytes, and both belong to it
