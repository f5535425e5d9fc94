"""The value of the state before a token, in float32 over a body of any dtype."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from headrace.errors import DataError
from headrace.models import train_forward
from headrace.models.logprobs import row_tensors
from headrace.models.value_model import ScalarHead, ValueModel
from headrace.packing.batch import pack
from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}


def save(folder, family="qwen3"):
    torch.manual_seed(0)
    if family == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(head_dim=8, tie_word_embeddings=True, **SHAPE))
    else:
        model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, **SHAPE))
    model.save_pretrained(folder)
    return model.eval()


def with_random_head(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        model.head.weight.copy_(torch.randn(model.head.weight.shape, generator=generator))
        model.head.bias.fill_(0.25)
    return model


def micro_batch(members):
    """One micro-batch of rollouts (token ids, prompt length), each a group of its own."""
    groups = []
    for number, (ids, prompt) in enumerate(members):
        name = str(number)
        start = Prompt(prompt_id=name, source="t", text="", token_ids=np.array(ids[:prompt], np.int32), row={})
        completion = Completion(
            request_id="",
            token_ids=np.array(ids[prompt:], np.int32),
            logprob=np.full(len(ids) - prompt, -1.0, np.float32),
            policy_version=np.zeros(len(ids) - prompt, np.int32),
            finish_reason="stop",
        )
        rollout = rollout_from_completions(start, completion, rollout_id=name, group_id=name, seed=0, temperature=1.0)
        rollout = replace(rollout, verdict=Verdict(reward=1.0), advantage=np.zeros(len(ids), np.float32))
        groups.append(Group(group_id=name, prompt=start, admission=number, rollouts=(rollout,)))
    batch = pack(
        groups,
        step=0,
        lineage=0,
        max_lag=0,
        loss_weight="token_mean",
        num_minibatches=1,
        num_epochs=1,
        micro_batch_tokens=64,
    )
    (micro,) = batch.updates[0]
    return micro


MEMBERS = [([3, 1, 4, 1, 5, 9], 2), ([2, 6, 5], 1)]


def expected_values(causal, head, members):
    """Of each rollout alone through the model's own forward: states prompt - 1 ... L - 2 predict, L - 1 is the end."""
    before, after = [], []
    for ids, prompt in members:
        states = causal.base_model(torch.tensor([ids])).last_hidden_state[0].double()
        values = states @ head.weight[0].double() + head.bias.double()
        before.append(values[prompt - 1 : -1])
        after.append(values[-1:])
    return before, after


def test_the_head_by_hand():
    head = ScalarHead(3)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, -2.0, 0.5]]))
        head.bias.fill_(3.0)
    assert head(torch.tensor([[1.0, 1.0, 4.0], [0.0, 2.0, 0.0]])).tolist() == [4.0, -1.0]


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_values_are_of_the_state_before_each_trainable_token(tmp_path, family):
    causal = save(tmp_path, family)
    model = with_random_head(ValueModel.from_folder(str(tmp_path)))
    before, after = expected_values(causal, model.head, MEMBERS)
    micro = micro_batch(MEMBERS)
    rows = row_tensors(micro)
    segment = micro.segment[micro.trainable]
    last = [int(np.flatnonzero((micro.segment == number) & micro.trainable)[-1]) for number in (0, 1)]
    values, ends = model.values_and_ends(rows, torch.tensor(last))
    for found in (model.values(rows), values):
        for number in (0, 1):
            assert (found[segment == number] - before[number]).abs().max() < 1e-5
    assert (ends - torch.cat(after)).abs().max() < 1e-5


def test_a_new_value_model_says_0_and_owns_its_weights(tmp_path):
    causal = save(tmp_path)
    model = ValueModel.from_folder(str(tmp_path))
    assert model.values(row_tensors(micro_batch(MEMBERS))).tolist() == [0.0] * 6
    for name, parameter in model.body.named_parameters():
        assert torch.equal(parameter, causal.base_model.get_parameter(name))
    assert not any("lm_head" in name for name, _ in model.named_parameters())


def test_gradients_reach_head_and_body_on_the_lean_path_as_on_the_module_path(tmp_path, monkeypatch):
    save(tmp_path)
    model = with_random_head(ValueModel.from_folder(str(tmp_path)))
    rows = row_tensors(micro_batch(MEMBERS))
    assert train_forward.supports(model.body)

    def gradients():
        model.zero_grad()
        (model.values(rows) * torch.linspace(-1, 1, 6)).sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    lean = gradients()
    monkeypatch.setattr(train_forward, "MAX_WIDTH", 0)
    module = gradients()
    assert lean.keys() == module.keys()
    assert module["head.bias"].item() == pytest.approx(0.0, abs=1e-6)  # the sum of linspace(-1, 1)
    for name, grad in module.items():
        if name != "head.bias":
            assert grad.norm() > 0
            assert (lean[name] - grad).norm() <= 1e-5 * grad.norm() + 1e-9, name


def test_the_head_is_float32_over_a_bf16_body(tmp_path):
    save(tmp_path)
    model = with_random_head(ValueModel.from_folder(str(tmp_path), dtype="bfloat16"))
    assert {p.dtype for p in model.body.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in model.head.parameters()} == {torch.float32}
    seen = {}
    model.head.register_forward_hook(lambda module, args, output: seen.update(hidden=args[0], value=output))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model.head(torch.ones(2, 32))
        assert seen["value"].dtype == torch.float32
    value = model.values(row_tensors(micro_batch(MEMBERS)))
    assert seen["hidden"].dtype == torch.bfloat16
    assert value.dtype == torch.float32
    exact = seen["hidden"].double() @ model.head.weight[0].double() + model.head.bias.double()
    assert (value - exact).abs().max() < 1e-5  # a bf16 product would be off by about 1e-2
    assert (value - value.bfloat16().float()).abs().max() > 1e-4
    value.sum().backward()
    assert model.head.weight.grad.dtype == torch.float32
    hidden_sum = seen["hidden"].detach().double().sum(0)
    assert (model.head.weight.grad[0] - hidden_sum).abs().max() < 1e-5


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(DataError, match="does not load as a causal language model"):
        ValueModel.from_folder(str(tmp_path))
