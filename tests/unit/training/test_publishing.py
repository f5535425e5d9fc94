import numpy as np
import pytest
import torch

from headrace.models.loading import load_causal_lm
from headrace.models.logprobs import score_sequences


def from_update(update):
    """Tensors by name, read back the way a generator reads them."""
    tensors = {}
    for spec in update.specs:
        raw = torch.from_numpy(update.buffer[spec.offset : spec.offset + spec.nbytes].copy())
        tensors[spec.name] = raw.view(getattr(torch, spec.dtype)).view(spec.shape)
    return tensors


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_generator_that_loads_the_buffer_reproduces_the_probes(
    make_trainer, make_recipe, make_batch, model_folder, dtype
):
    trainer = make_trainer(make_recipe(dtype=dtype))
    trainer.step(make_batch())
    update = trainer.publishable()
    assert (update.version, update.lineage, update.kind) == (1, 0, "full")
    other = load_causal_lm(model_folder, dtype=dtype)
    tensors = from_update(update)
    assert set(tensors) == {name for name, _ in other.named_parameters()}
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            assert tensors[name].dtype == parameter.dtype == getattr(torch, dtype)
            parameter.copy_(tensors[name])
    for mine, theirs in zip(score_sequences(other, update.probe.token_ids), update.probe.logprob, strict=True):
        assert np.array_equal(mine, theirs)


def test_tensors_are_aligned_and_do_not_overlap(make_trainer):
    update = make_trainer().publishable()
    end = 0
    for spec in update.specs:
        assert spec.offset % 64 == 0
        assert spec.offset >= end
        end = spec.offset + spec.nbytes
    assert end <= len(update.buffer)


def test_probes_are_fixed_and_follow_the_weights(make_trainer, make_batch):
    trainer = make_trainer()
    before = trainer.publishable().probe
    assert [len(ids) for ids in before.token_ids] == [16, 16]
    assert [len(values) for values in before.logprob] == [15, 15]
    trainer.step(make_batch())
    after = trainer.publishable().probe
    assert all(np.array_equal(a, b) for a, b in zip(before.token_ids, after.token_ids, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(before.logprob, after.logprob, strict=True))


def test_a_published_buffer_does_not_change_with_later_steps(make_trainer, make_batch):
    trainer = make_trainer()
    buffer = trainer.publishable().buffer
    copy = buffer.copy()
    trainer.step(make_batch())
    assert np.array_equal(buffer, copy)


def test_bf16_steps_below_its_resolution_add_up_in_the_masters(make_trainer, make_recipe, make_groups, make_batch):
    # One step of 1e-5 is far below the spacing of bf16 near the weights' size; the masters must keep it.
    trainer = make_trainer(make_recipe(dtype="bfloat16", lr=1e-5))
    start = {name: p.detach().clone() for name, p in trainer._model.named_parameters()}
    masters = trainer._optimizer.state_dict()["masters"]
    first = {name: m.clone() for name, m in masters.items()}
    trainer.step(make_batch(make_groups()))
    assert all(not torch.equal(first[name], masters[name]) for name in first)
    stuck = sum(int((p == start[name]).sum()) for name, p in trainer._model.named_parameters())
    assert stuck > 0.5 * sum(p.numel() for p in trainer._model.parameters())
    for step in range(1, 30):
        trainer.step(make_batch(make_groups(version=step), step=step))
    moved = sum(int((p != start[name]).sum()) for name, p in trainer._model.named_parameters())
    assert moved > 0.3 * sum(p.numel() for p in trainer._model.parameters())
    for name, p in trainer._model.named_parameters():
        assert torch.equal(p, masters[name].bfloat16())
