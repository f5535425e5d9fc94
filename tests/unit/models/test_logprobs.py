"""The shift by one, the walls between packed rollouts, and the lean forward against the module path."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from headrace.errors import DataError, RecordError
from headrace.models import train_forward
from headrace.models.logprobs import (
    block_causal_mask,
    head_weight,
    predicting_states,
    row_tensors,
    score_sequences,
    trainable_logprobs,
)
from headrace.records import NO_VERSION, MicroBatch

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}


def qwen3(**changes):
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(head_dim=8, tie_word_embeddings=True, **(SHAPE | changes))).eval()


def llama(**changes):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**(SHAPE | changes))).eval()


def micro_batch(rows, width):
    """``rows``: a list of lists of (token ids, prompt length)."""
    shape = (len(rows), width)
    token_ids, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    segment, trainable = np.full(shape, -1, np.int32), np.zeros(shape, np.bool_)
    number = 0
    for r, members in enumerate(rows):
        start = 0
        for ids, prompt in members:
            place = (r, slice(start, start + len(ids)))
            token_ids[place], positions[place], segment[place] = ids, np.arange(len(ids)), number
            trainable[place] = np.arange(len(ids)) >= prompt
            start, number = start + len(ids), number + 1
    return MicroBatch(
        token_ids=token_ids,
        position_ids=positions,
        segment=segment,
        prefix=segment,
        previous=np.where(positions > 0, np.arange(width) - 1, -1).astype(np.int32),
        trainable=trainable,
        behaviour_logprob=np.zeros(shape, np.float32),
        policy_version=np.full(shape, NO_VERSION, np.int32),
        advantage=np.zeros(shape, np.float32),
        loss_weight=np.zeros(shape, np.float64),
    )


def shared_micro_batch(rows, width):
    """``rows``: a list of lists of (prompt ids, [completion ids, ...]), the prompt once before its completions."""
    joined = [[(np.concatenate([prompt, *parts]), len(prompt)) for prompt, parts in row] for row in rows]
    micro = micro_batch(joined, width)
    micro = replace(micro, prefix=micro.segment.copy())
    number = sum(len(completions) for row in rows for _, completions in row)  # of the first block
    rollout = 0
    for r, row in enumerate(rows):
        column = 0
        for prompt, completions in row:
            micro.segment[r, column : column + len(prompt)] = number
            last, column = column + len(prompt) - 1, column + len(prompt)
            for ids in completions:
                place = (r, slice(column, column + len(ids)))
                micro.segment[place] = rollout
                micro.position_ids[place] = len(prompt) + np.arange(len(ids))
                micro.previous[r, column] = last
                column, rollout = column + len(ids), rollout + 1
            micro.prefix[r, column - sum(map(len, completions)) - len(prompt) : column] = number
            number += 1
    return micro


def sequences(count, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.integers(40, size=int(rng.integers(6, 14))), int(rng.integers(1, 5))) for _ in range(count)]


def test_the_shift_pairs_each_token_with_the_position_before_it():
    rows = row_tensors(micro_batch([[([30, 31, 32], 1), ([40, 41], 1)]], 6))
    assert rows.source.tolist() == [0, 1, 3]
    assert rows.target.tolist() == [31, 32, 41]  # 40 opens its segment: nothing predicts it, least of all 32


@pytest.mark.parametrize("rows", [[[([1, 2, 3], 1), ([4, 5], 0)]], [[([1, 2], 0)]], [[([1, 2], 1)], [([3, 4], 0)]]])
def test_a_trainable_first_token_is_refused(rows):
    with pytest.raises(RecordError, match="first of its rollout"):
        row_tensors(micro_batch(rows, 6))


def test_the_last_prompt_token_predicts_the_first_of_every_completion():
    micro = shared_micro_batch([[([30, 31, 32], [[40, 41], [50, 51, 52]]), ([33], [[60]])]], 12)
    assert micro.segment.tolist() == [[3, 3, 3, 0, 0, 1, 1, 1, 4, 2, -1, -1]]
    rows = row_tensors(micro)
    assert rows.source.tolist() == [2, 3, 2, 5, 6, 8]
    assert rows.target.tolist() == [40, 41, 50, 51, 52, 60]


def test_what_a_token_sees_beside_a_shared_prompt():
    micro = shared_micro_batch([[([30, 31], [[40], [50, 51]]), ([33], [[60]])]], 8)
    rows = row_tensors(micro)
    mask = block_causal_mask(rows.segment, rows.prefix, torch.float32)
    assert (mask[0, 0] == 0).int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 0, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 1],
    ]
    assert set(mask.unique().tolist()) == {0.0, torch.finfo(torch.float32).min}


@pytest.mark.parametrize(("column", "before"), [(3, 2), (2, -1), (2, 4), (5, 3)])
def test_a_predictor_that_the_token_does_not_see_is_refused(column, before):
    """Another rollout's token, none at all, a later one, and the block of another group."""
    micro = shared_micro_batch([[([30, 31], [[40], [50]]), ([33, 34], [[60]])]], 8)
    row_tensors(micro)
    micro.previous[0, 6 if column == 5 else column] = before
    with pytest.raises(RecordError, match="first of its rollout"):
        row_tensors(micro)


def alone_and_shared():
    """Three groups as rows of (prompt, completion) each alone, and with shared prompts, two groups in the first row."""
    rng = np.random.default_rng(3)
    draw = lambda low, high: rng.integers(40, size=int(rng.integers(low, high)))  # noqa: E731
    groups = [(draw(2, 7), [draw(1, 9) for _ in range(size)]) for size in (3, 1, 4)]
    alone = [[(np.concatenate([prompt, ids]), len(prompt))] for prompt, parts in groups for ids in parts]
    return micro_batch(alone, 16), shared_micro_batch([groups[:2], groups[2:]], 48)


@pytest.mark.parametrize("path", ["lean", "module"])
@pytest.mark.parametrize("make", [qwen3, llama])
def test_sharing_changes_neither_states_nor_gradients(make, path, monkeypatch):
    """In float64, the modules' norms included (they compute in float32), where rounding cannot hide a difference."""
    model = make().double()
    norm = type(model.base_model.norm)
    monkeypatch.setattr(
        norm,
        "forward",
        lambda self, x: self.weight * x * (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt(),
    )
    monkeypatch.setattr(train_forward, "supports", lambda model: path == "lean")

    def run(micro):
        model.zero_grad()
        rows = row_tensors(micro)
        states = predicting_states(model, rows)
        weights = torch.linspace(-1, 1, states.numel(), dtype=torch.float64).view(states.shape)
        (states * weights).sum().backward()
        return rows.target, states.detach(), {n: p.grad.clone() for n, p in model.base_model.named_parameters()}

    target, alone, expected = run(alone_and_shared()[0])
    shared_target, shared, found = run(alone_and_shared()[1])
    assert torch.equal(shared_target, target)
    assert (shared - alone).abs().max() < 1e-12
    for name, grad in expected.items():
        assert (found[name] - grad).norm() <= 1e-12 * grad.norm(), name


@pytest.mark.parametrize("make", [qwen3, llama])
def test_sharing_changes_log_probabilities_by_rounding_only(make):
    model = make()

    def run(micro):
        model.zero_grad()
        scores = trainable_logprobs(model, row_tensors(micro), temperature=0.7)
        (scores.logprob * torch.linspace(-1, 1, len(scores.logprob))).sum().backward()
        grads = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        return scores.logprob.detach(), scores.entropy.detach(), grads

    (alone, entropy, expected), (shared, shared_entropy, found) = map(run, alone_and_shared())
    assert (shared - alone).abs().max() < 1e-5
    assert (shared_entropy - entropy).abs().max() < 1e-5
    assert (found - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize("make", [qwen3, llama])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_equals_unpacked(make, temperature):
    model = make()
    members = sequences(6)
    packed = micro_batch([members[:2], members[2:5], members[5:]], 44)
    scores = trainable_logprobs(model, row_tensors(packed), temperature=temperature)
    expected, entropies = [], []
    for ids, prompt in members:
        logits = model(torch.from_numpy(ids)[None]).logits[0].double() / temperature
        logprobs = logits.log_softmax(-1)[prompt - 1 : -1]
        expected.append(logprobs.gather(1, torch.from_numpy(ids[prompt:])[:, None])[:, 0])
        entropies.append(-(logprobs.exp() * logprobs).sum(-1))
    assert (scores.logprob - torch.cat(expected)).abs().max() < 1e-5
    assert (scores.entropy - torch.cat(entropies)).abs().max() < 1e-5


def test_no_token_sees_another_rollout():
    model = qwen3()
    (first, p), (second, q) = sequences(2)
    other = (second + 7) % 40
    a = trainable_logprobs(model, row_tensors(micro_batch([[(first, p), (second, q)]], 30)), temperature=1.0).logprob
    b = trainable_logprobs(model, row_tensors(micro_batch([[(first, p), (other, q)]], 30)), temperature=1.0).logprob
    assert torch.equal(a[: len(first) - p], b[: len(first) - p])
    assert not torch.equal(a[len(first) - p :], b[len(first) - p :])


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (qwen3, {}),
        (qwen3, {"num_key_value_heads": 4}),
        (qwen3, {"num_key_value_heads": 1}),
        (llama, {}),
        (llama, {"tie_word_embeddings": True}),
    ],
)
def test_lean_forward_equals_the_module_path(make, changes, monkeypatch):
    model = make(**changes)
    members = sequences(7)
    rows = row_tensors(micro_batch([members[:2], members[2:5], members[5:]], 44))
    assert train_forward.supports(model)

    def run():
        model.zero_grad()
        logprob = trainable_logprobs(model, rows, temperature=1.0).logprob
        (logprob * torch.linspace(-1, 1, len(logprob))).sum().backward()
        return logprob.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}

    lean, lean_grads = run()
    monkeypatch.setattr(train_forward, "MAX_WIDTH", 0)
    module, module_grads = run()
    assert (lean - module).abs().max() < 2e-6
    # The whole gradient to 1e-6; a single small tensor may lose another digit to cancellation.
    difference = sum((lean_grads[n] - g).square().sum() for n, g in module_grads.items()) ** 0.5
    assert difference <= 1e-6 * sum(g.square().sum() for g in module_grads.values()) ** 0.5
    for name, grad in module_grads.items():
        assert (lean_grads[name] - grad).norm() <= 1e-5 * grad.norm() + 1e-9, name


def test_lean_forward_is_only_for_what_it_computes():
    assert not train_forward.supports(qwen3().bfloat16())
    assert not train_forward.supports(qwen3(attention_bias=True))
    assert not train_forward.supports(llama(hidden_act="gelu"))


def test_scores_of_bare_sequences():
    model = qwen3()
    ids = [np.array([1, 2, 3, 4], np.int32), np.array([5, 6], np.int32)]
    scores = score_sequences(model, ids)
    for part, sequence in zip(scores, ids, strict=True):
        logprobs = model(torch.from_numpy(sequence.astype(np.int64))[None]).logits[0].log_softmax(-1)
        expected = logprobs[:-1].gather(1, torch.from_numpy(sequence[1:].astype(np.int64))[:, None])[:, 0]
        assert part == pytest.approx(expected.detach().numpy(), abs=1e-5)
        assert part.dtype == np.float32


def test_a_head_that_is_more_than_a_product_is_refused():
    model = llama()
    model.lm_head = torch.nn.Linear(32, 40, bias=True)
    with pytest.raises(DataError, match="without bias"):
        head_weight(model)
    model = llama()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(DataError, match="final_logit_softcapping"):
        head_weight(model)
