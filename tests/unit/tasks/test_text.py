import pytest

from headrace.errors import DataError
from headrace.tasks.text import TextCodec

BOS, EOS, TURN = 256, 257, 258

CHAT = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def num_bos(ids):
    return ids.tolist().count(BOS)


@pytest.mark.parametrize(
    ("options", "text", "count"),
    [
        ({"adds_bos": True}, "2+2=", 1),
        ({"adds_bos": True}, "<s>2+2=", 1),  # written in the prompt already
        ({"adds_bos": False}, "2+2=", 0),
        ({"adds_bos": False}, "<s>2+2=", 1),
        ({"adds_bos": False, "config": {"add_bos_token": True}}, "2+2=", 1),  # by a setting, not by tokenizer.json
        ({"adds_bos": True, "config": {"add_bos_token": True}}, "2+2=", 1),
    ],
)
def test_bos_stands_once_or_not_at_all(make_folder, options, text, count):
    ids = TextCodec(make_folder(**options)).encode(text)
    assert num_bos(ids) == count
    assert len(ids) == 4 + count


def test_an_end_token_is_never_part_of_a_prompt(make_folder):
    ids = TextCodec(make_folder(adds_bos=True, adds_eos=True)).encode("2+2=")
    assert ids[0] == BOS
    assert EOS not in ids


def test_the_template_has_the_say_over_the_bos(make_folder):
    codec = TextCodec(make_folder(adds_bos=True, template=CHAT))
    text = codec.render_chat("2+2=")
    assert text == "<s>[user]2+2=<|end|>[assistant]"
    assert num_bos(codec.encode_templated([text])[0]) == 1


def test_messages_are_rendered_as_they_are(make_folder):
    codec = TextCodec(make_folder(template=CHAT))
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert codec.render_chat(messages) == "<s>[system]s<|end|>[user]u<|end|>[assistant]"


def test_the_token_behind_an_assistants_turn_ends_a_completion_too(make_folder):
    assert TextCodec(make_folder()).eos_token_ids == (EOS,)
    assert TextCodec(make_folder(template=CHAT)).eos_token_ids == (EOS, TURN)


def test_generation_marks_are_ignored(make_folder):
    template = "a{% generation %}{{ messages[0]['content'] }}{% endgeneration %}b"
    assert TextCodec(make_folder(template=template)).render_chat("x") == "axb"


def test_template_in_a_file_of_its_own_wins(make_folder):
    folder = make_folder(template="old")
    (folder / "chat_template.jinja").write_text("new")
    assert TextCodec(folder).render_chat("x") == "new"


def test_template_that_refuses_says_so_in_its_own_words(make_folder):
    with pytest.raises(DataError, match="only two turns"):
        TextCodec(make_folder(template="{{ raise_exception('only two turns') }}")).render_chat("x")


def test_template_cannot_reach_into_python(make_folder):
    template = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(DataError, match="refuses"):
        TextCodec(make_folder(template=template)).render_chat("x")


def test_no_template_is_an_error_with_advice(make_folder):
    codec = TextCodec(make_folder())
    assert not codec.has_chat_template
    with pytest.raises(DataError, match=r"task\.chat is true.*has no chat template"):
        codec.render_chat("x")


def test_characters_of_several_tokens_come_back_whole(make_folder):
    codec = TextCodec(make_folder())
    ids = codec.encode("数!")
    assert len(ids) == 4  # three bytes and one
    assert codec.decode(ids) == "数!"


def test_half_a_character_at_the_end_is_no_exception(make_folder):
    codec = TextCodec(make_folder())
    text = codec.decode(codec.encode("42数")[:-1])
    assert text.startswith("42")
    assert text.encode("utf-8")  # no lone surrogate


def test_special_and_unknown_ids_are_left_out(make_folder):
    codec = TextCodec(make_folder())
    assert codec.decode([BOS, *codec.encode("7").tolist(), EOS, 10_000]) == "7"


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(DataError, match=r"no tokenizer\.json"):
        TextCodec(tmp_path)


def test_a_file_that_is_no_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="is not a tokenizer file"):
        TextCodec(tmp_path)
