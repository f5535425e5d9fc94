import pytest

from headrace.errors import ConfigError
from headrace.verifiers.function import FunctionVerifier

ROW = {"prompt": "2+2=", "answer": "4", "level": 3}


def test_columns_come_as_lists_by_name():
    seen = {}

    def reward(completions, prompts, answer, level, **rest):
        seen.update(completions=completions, prompts=prompts, answer=answer, level=level, rest=rest)
        return [0.5]

    verdict = FunctionVerifier(reward)("4", ROW)
    assert seen == {"completions": ["4"], "prompts": ["2+2="], "answer": ["4"], "level": [3], "rest": {}}
    assert (verdict.reward, verdict.passed) == (0.5, False)


def test_columns_that_it_does_not_name_are_kept_back():
    assert FunctionVerifier(lambda completions: [float(completions == ["4"])])("4", ROW).passed


def test_conversations_get_messages():
    row = {"prompt": [{"role": "user", "content": "2+2="}], "answer": "4"}
    seen = []
    FunctionVerifier(lambda completions, prompts: seen.extend([completions, prompts]) or [1.0])("4", row)
    assert seen == [[[{"role": "assistant", "content": "4"}]], [row["prompt"]]]


def test_coroutines_are_awaited():
    async def reward(completions, **_):
        return [1]

    assert FunctionVerifier(reward)("4", ROW).passed


@pytest.mark.parametrize(("value", "error"), [(None, "returned None"), (float("nan"), "returned nan")])
def test_no_number_cannot_be_judged(value, error):
    verdict = FunctionVerifier(lambda completions: [value])("4", ROW)
    assert verdict.reward is None
    assert error in verdict.error


@pytest.mark.parametrize("result", [1.0, "1", [], [1.0, 2.0], {"reward": 1}])
def test_anything_but_one_reward_for_each_raises(result):
    with pytest.raises(TypeError, match="it must return a list with one reward for each"):
        FunctionVerifier(lambda completions: result)("4", ROW)


def test_loading(tmp_path):
    file = tmp_path / "rewards.py"
    file.write_text("from helper_beside import half\n\ndef mine(completions):\n    return [half] * len(completions)\n")
    (tmp_path / "helper_beside.py").write_text("half = 0.5\n")
    assert FunctionVerifier.load(f"{file}:mine")("x", ROW).reward == 0.5
    with pytest.raises(ConfigError, match=r"no function 'mini' in .*it has: mine\. Did you mean 'mine'"):
        FunctionVerifier.load(f"{file}:mini")
    with pytest.raises(ConfigError, match="does not exist"):
        FunctionVerifier.load(f"{tmp_path}/other.py:mine")
    file.write_text("import nothing_of_this_name\n")
    with pytest.raises(ConfigError, match="does not import: ModuleNotFoundError"):
        FunctionVerifier.load(f"{file}:mine")
    with pytest.raises(ConfigError, match="nothing_of_this_name does not import"):
        FunctionVerifier.load("nothing_of_this_name:f")
