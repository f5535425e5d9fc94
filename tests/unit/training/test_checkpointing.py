import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from headrace.errors import DataError


def run(trainer, make_batch, make_groups, steps):
    return [trainer.step(make_batch(make_groups(seed=s, version=s), step=s, num_minibatches=2)).metrics for s in steps]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_save_load_continue_equals_no_interruption(make_trainer, make_recipe, make_batch, make_groups, tmp_path, dtype):
    recipe = make_recipe(dtype=dtype, minibatches=2, warmup=8)
    straight = make_trainer(recipe)
    run(straight, make_batch, make_groups, range(3))
    straight.save(str(tmp_path))
    expected = run(straight, make_batch, make_groups, range(3, 6))

    resumed = make_trainer(recipe)
    resumed.load(str(tmp_path))
    assert resumed.version == 3
    actual = run(resumed, make_batch, make_groups, range(3, 6))
    for a, b in zip(actual, expected, strict=True):
        assert {k: v for k, v in a.items() if k != "trainer/step_s"} == {
            k: v for k, v in b.items() if k != "trainer/step_s"
        }
    assert np.array_equal(resumed.publishable().buffer, straight.publishable().buffer)


def test_the_model_folder_is_a_hugging_face_model(make_trainer, make_batch, tmp_path):
    trainer = make_trainer()
    trainer.step(make_batch())
    trainer.save(str(tmp_path))
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    for name, parameter in trainer._model.named_parameters():
        assert torch.equal(saved.get_parameter(name), parameter)
    assert (tmp_path / "model" / "tokenizer.json").read_text() == "{}"
    assert json.loads((tmp_path / "trainer.json").read_text())["version"] == 1


def test_the_lineage_is_the_new_trainers(make_trainer, tmp_path):
    make_trainer().save(str(tmp_path))
    resumed = make_trainer(lineage=2)
    resumed.load(str(tmp_path))
    assert resumed.publishable().lineage == 2


def test_a_broken_checkpoint_is_named(make_trainer, tmp_path):
    with pytest.raises(DataError, match="no usable trainer part"):
        make_trainer().load(str(tmp_path))
    make_trainer().save(str(tmp_path))
    (tmp_path / "optimizer.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match="no usable trainer part"):
        make_trainer().load(str(tmp_path))
