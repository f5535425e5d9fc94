import numpy as np
import pytest

from headrace.errors import DataError
from headrace.records import Completion
from headrace.tasks.prompts import PromptEncoder, prompt_id
from headrace.tasks.single_turn import SingleTurn
from headrace.tasks.source import RowSource
from headrace.tasks.text import TextCodec

ROWS = [{"prompt": f"{i}+{i}=", "answer": str(2 * i)} for i in range(10)]


@pytest.fixture
def source(make_folder):
    encoder = PromptEncoder(TextCodec(make_folder(adds_bos=True)))
    return lambda rows=ROWS, **options: RowSource(rows, encoder, name="file", **options)


def test_each_epoch_is_another_order_of_all_rows(source):
    stream = source(seed=3)
    epochs = [[stream.at(10 * epoch + i) for i in range(10)] for epoch in range(3)]
    orders = [[p.index for p in prompts] for prompts in epochs]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert {p.epoch for p in epochs[2]} == {2}


def test_a_position_is_a_pure_function(source):
    late, fresh = source(seed=3), source(seed=3)
    assert late.at(25).prompt_id == fresh.at(25).prompt_id
    assert [late.at(i).index for i in (25, 3)] == [fresh.at(25).index, fresh.at(3).index]
    assert [source(seed=4).at(i).index for i in range(10)] != [late.at(i).index for i in range(10)]


def test_a_prompt_carries_text_ids_and_row(source):
    prompt = source(shuffle=False).at(3)
    assert prompt.text == "3+3="
    assert len(prompt.token_ids) == 5
    assert prompt.token_ids.dtype == np.int32
    assert prompt.row == {"prompt": "3+3=", "answer": "6"}
    assert prompt.prompt_id == prompt_id("3+3=", "6")


def test_prompt_ids_are_stable_and_tell_prompt_from_answer():
    assert prompt_id("12+30=", "42") == "d5fb5941e0ba8b89"
    assert len({prompt_id("a", "bc"), prompt_id("ab", "c"), prompt_id("abc", "")}) == 3
    assert prompt_id([{"role": "user", "content": "a"}], "1") != prompt_id("a", "1")


def test_no_rows(source):
    with pytest.raises(DataError, match="there are no rows"):
        source(rows=[])


async def _generate(prefix_ids, *, max_tokens=None, stop_token_ids=None):
    return Completion(
        request_id="r",
        token_ids=np.array([5, 257], np.int32),
        logprob=np.array([-0.5, -0.1], np.float32),
        policy_version=np.array([4, 5], np.int32),
        finish_reason="stop",
    )


def test_single_turn_is_prompt_and_completion(source):
    import asyncio

    class Sampler:
        temperature = 0.7
        generate = staticmethod(_generate)

    prompt = source(shuffle=False).at(0)
    (rollout,) = asyncio.run(SingleTurn().run(prompt, Sampler(), group_id="g", seed=11))
    assert rollout.token_ids.tolist() == [*prompt.token_ids.tolist(), 5, 257]
    assert rollout.trainable.tolist() == [False] * 5 + [True, True]
    assert rollout.policy_version.tolist() == [-1] * 5 + [4, 5]
    assert (rollout.rollout_id, rollout.seed, rollout.temperature, rollout.finish_reason) == ("g/11", 11, 0.7, "stop")
