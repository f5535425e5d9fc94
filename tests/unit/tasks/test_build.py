import json

import pytest

from headrace.config.load import load_recipe
from headrace.errors import ConfigError, DataError
from headrace.tasks.build import load_task, make_sources
from headrace.tasks.text import TextCodec


@pytest.fixture
def codec(make_folder):
    return TextCodec(make_folder(adds_bos=True, template="[user]{{ messages[0]['content'] }}[bot]"))


@pytest.fixture
def recipe(tmp_path):
    def make(rows, *overrides, eval_rows=None):
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        paths = [f"task.path={tmp_path / 'rows.jsonl'}"]
        if eval_rows is not None:
            (tmp_path / "eval.jsonl").write_text("\n".join(map(json.dumps, eval_rows)))
            paths.append(f"task.eval_path={tmp_path / 'eval.jsonl'}")
        (tmp_path / "recipe.yaml").write_text("task: file\nreward: exact\n")
        return load_recipe(tmp_path / "recipe.yaml", [*paths, "sampling.max_completion_tokens=8", *overrides])

    return make


def rows(*lengths):
    return [{"prompt": str(i) + "x" * (n - 1), "answer": "1"} for i, n in enumerate(lengths)]


def test_a_prompt_longer_than_the_context_leaves_is_an_error_with_its_row(codec, recipe):
    # 39 characters and a BOS are 40 tokens; 40 of context less 8 to sample leave 32
    with pytest.raises(DataError, match=r"row 2: the prompt has 40 tokens .* the context leaves 32"):
        load_task(recipe(rows(9, 39, 11)), codec, 40)


def test_long_prompts_can_be_dropped_and_are_counted(codec, recipe):
    data = load_task(recipe(rows(9, 39, 11), "task.bad_rows=drop"), codec, 40)
    assert len(data.train) + len(data.held_out) == 2
    assert list(data.tables[0].dropped) == [2]


def test_the_longest_prompt_that_fits_is_kept(codec, recipe):
    data = load_task(recipe(rows(9, 31, 11)), codec, 40)
    assert len(data.train) + len(data.held_out) == 3


def test_the_templated_text_is_what_is_measured(codec, recipe):
    # 30 characters raw, 41 with "[user]" and "[bot]"
    data = load_task(recipe(rows(10, 30, 11), "task.chat=true", "task.bad_rows=drop"), codec, 48)
    assert list(data.tables[0].dropped) == [2]
    assert "has 41 tokens" in data.tables[0].dropped[2]


def test_all_prompts_too_long(codec, recipe):
    with pytest.raises(DataError, match="all 3 rows were dropped"):
        load_task(recipe(rows(39, 39, 39), "task.bad_rows=drop"), codec, 40)


def test_completions_that_leave_no_room_for_a_prompt(codec, recipe):
    with pytest.raises(ConfigError, match=r"sampling\.max_completion_tokens 8 does not fit .* context is 8 tokens"):
        load_task(recipe(rows(3, 3)), codec, 8)


def test_a_tenth_is_held_out_by_problem_and_for_every_seed_alike(codec, recipe):
    data = [{"prompt": f"p{i % 50}", "answer": "1"} for i in range(100)]  # each problem twice
    sides = [make_sources(recipe(data, f"run.seed={seed}"), codec, 64) for seed in (0, 1)]
    held = [{held_out.at(i).prompt_id for i in range(len(held_out))} for _, held_out in sides]
    train = {sides[0][0].at(i).prompt_id for i in range(len(sides[0][0]))}
    assert len(held[0]) == 5
    assert len(sides[0][1]) == 10
    assert held[0] == held[1]
    assert not held[0] & train
    assert len(sides[0][0]) == 90


def test_one_problem_cannot_be_split(codec, recipe):
    with pytest.raises(DataError, match=r"1 problem.*task\.eval_path"):
        load_task(recipe(rows(3)), codec, 64)


def test_held_out_rows_of_their_own_file_are_all_evaluated(codec, recipe):
    data = load_task(recipe(rows(3, 3), "eval.num_prompts=8", eval_rows=rows(4, 5, 6, 7, 8)), codec, 64)
    assert (len(data.train), len(data.held_out)) == (2, 5)
    assert {data.held_out.at(i).prompt_id for i in range(5)} == {data.held_out.at(i).prompt_id for i in range(5, 10)}
    assert data.notes == ("eval.num_prompts is 8, the held-out rows are 5: all of them are evaluated.",)


def test_held_out_prompts_are_no_more_than_asked_for(codec, recipe):
    assert len(load_task(recipe(rows(3, 3), "eval.num_prompts=2", eval_rows=rows(4, 5, 6)), codec, 64).held_out) == 2


def test_bundled_problems_of_both_sides_never_meet(codec):
    train, held_out = make_sources(load_recipe("demo"), codec, 256)
    assert len(held_out) == 1024
    assert train.at(0).row["answer"]
    assert not {train.at(i).text for i in range(2000)} & {held_out.at(i).text for i in range(1024)}


def test_bundled_held_out_problems_do_not_depend_on_the_seed(codec):
    first, second = (make_sources(load_recipe("demo", [f"run.seed={s}"]), codec, 256) for s in (0, 1))
    assert first[1].at(7).text == second[1].at(7).text
    assert first[0].at(7).text != second[0].at(7).text


def test_messages_are_prompts_with_chat(codec, recipe):
    data = [{"prompt": [{"role": "user", "content": f"q{i}"}], "answer": "1"} for i in range(4)]
    source, _ = make_sources(recipe(data, "task.chat=true"), codec, 64)
    assert source.at(0).text.startswith("[user]q")
    with pytest.raises(DataError, match=r"a list of messages with task\.chat true"):
        make_sources(recipe(data), codec, 64)
