"""Values that learn: exact whatever the split, patient when told, safe against what is not finite."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from headrace.config.sections import OptimizerSection
from headrace.errors import DataError
from headrace.models.logprobs import row_tensors
from headrace.models.value_model import ValueModel
from headrace.training.critic import Critic, explained_variance
from headrace.training.ranks import Ranks
from tests.unit.training.thread_ranks import thread_ranks, together


@pytest.fixture
def make_critic(model_folder):
    def build(*, dtype="float32", double=False, lr=1e-3, max_grad_norm=1.0, **settings):
        model = ValueModel.from_folder(model_folder, dtype=dtype)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():  # a head at 0 sends no gradient into the body
            model.head.weight.copy_(0.3 * torch.randn(model.head.weight.shape, generator=generator))
        if double:
            model.double()
        section = OptimizerSection(lr=lr, max_grad_norm=max_grad_norm, weight_decay=0.1)
        return Critic(model, section, **settings)

    return build


@pytest.fixture
def exact_norms(monkeypatch):
    """The library's norm computes in float32 even in a float64 model, so that a sum in another order moves a gradient
    by 1e-8. Here it keeps to float64."""

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(Qwen3RMSNorm, "forward", forward)


def inputs(critic, micros, target=lambda segment, t: np.sin(3.0 * segment + t)):
    """Keywords of an update towards a target that is a function of (segment, number of the token)."""
    returns = [np.array([target(s, t) for s, t in enumerate_tokens(m)]) for m in micros]
    return {
        "returns": returns,
        "old_values": [critic.values(m) for m in micros],
        "weights": [m.loss_weight[m.trainable] for m in micros],
    }


def enumerate_tokens(micro):
    seen, places = {}, []
    for segment in micro.segment[micro.trainable].tolist():
        places.append((segment, seen.get(segment, 0)))
        seen[segment] = seen.get(segment, 0) + 1
    return places


def weights(critic):
    return {name: p.detach().clone() for name, p in critic.model.named_parameters()}


def distance(a, b):
    """||a - b|| / ||b|| over all tensors."""
    gap = sum(((a[n].double() - b[n].double()) ** 2).sum().item() for n in b)
    return (gap / sum((b[n].double() ** 2).sum().item() for n in b)) ** 0.5


def gradients_of(critic, micros, **changes):
    """Gradients as the optimiser's step would see them."""
    found = {}

    def catch():
        found.update({n: p.grad.clone() for n, p in critic.model.named_parameters() if p.grad is not None})
        return real()

    real = critic._optimizer.apply
    critic._optimizer.apply = catch
    critic.update(micros, **(inputs(critic, micros) | changes))
    critic._optimizer.apply = real
    return found


@pytest.mark.parametrize(
    ("every", "pretrain", "due"),
    [
        (1, 0, [True, True, True, True, True, True, True]),
        (2, 0, [True, False, True, False, True, False, True]),
        (3, 0, [True, False, False, True, False, False, True]),
        (2, 3, [True, True, True, True, False, True, False]),
        (3, 2, [True, True, True, False, False, True, False]),
    ],
)
def test_which_steps_update_the_critic(make_critic, every, pretrain, due):
    critic = make_critic(every=every, pretrain_steps=pretrain)
    assert [critic.due(step) for step in range(7)] == due
    assert [critic.policy_waits(step) for step in range(7)] == [step < pretrain for step in range(7)]


def test_a_constant_return_is_learned_in_a_few_updates(make_critic, make_batch):
    critic = make_critic(lr=1e-2)
    micros = make_batch().updates[0]
    constant = lambda segment, t: 0.7  # noqa: E731
    before = np.concatenate([critic.values(m) for m in micros]) - 0.7
    losses = []
    for _ in range(30):
        critic.update(micros, **inputs(critic, micros, constant))
        losses.append(critic.take_metrics()["value/loss"])
    after = np.concatenate([critic.values(m) for m in micros]) - 0.7
    assert losses[0] == pytest.approx(np.square(before).mean() / 2, rel=1e-5)  # token mean of half the square
    assert np.abs(before).max() > 0.3
    assert np.abs(after).max() < 0.1
    assert losses[-1] < losses[0] / 50


def test_the_gradient_is_that_of_the_whole_update(make_critic, make_batch):
    (micro,) = make_batch().updates[0]
    found = gradients_of(make_critic(double=True), [micro])
    critic = make_critic(double=True)
    value = critic.model.values(row_tensors(micro))
    target = torch.from_numpy(inputs(critic, [micro])["returns"][0])
    expected = torch.autograd.grad(((value - target) ** 2).mean() / 2, list(critic.model.parameters()))
    named = dict(zip([n for n, _ in critic.model.named_parameters()], expected, strict=True))
    assert distance(found, named) < 1e-12


@pytest.mark.parametrize("clip", [None, 0.2])
def test_splits_and_ranks_do_not_change_the_gradient(exact_norms, make_critic, make_batch, make_groups, clip):
    critic = make_critic(double=True, clip=clip)
    whole = make_batch(make_groups())
    old = {place: v - 0.3 for m in whole.updates[0] for place, v in zip(enumerate_tokens(m), critic.values(m))}

    def old_values(micros):
        return [np.array([old[place] for place in enumerate_tokens(m)]) for m in micros]

    expected = gradients_of(critic, whole.updates[0], old_values=old_values(whole.updates[0]))
    split = make_batch(make_groups(), micro_batch_tokens=30)
    assert len(split.updates[0]) > 2 * len(whole.updates[0])
    found = gradients_of(make_critic(double=True, clip=clip), split.updates[0], old_values=old_values(split.updates[0]))
    assert distance(found, expected) < 1e-12

    assert len(whole.updates[0][0].token_ids) >= 2

    def on_rank(critic):
        mine = critic._ranks.share(whole).updates[0]
        return gradients_of(critic, mine, old_values=old_values(mine))

    critics = [make_critic(double=True, clip=clip, ranks=ranks) for ranks in thread_ranks(2)]
    for found in together(on_rank, critics):
        assert distance(found, expected) < 1e-12


def test_ranks_end_an_update_with_the_same_weights_and_figures(exact_norms, make_critic, make_batch, make_groups):
    alone = make_critic(double=True, clip=0.2)
    batch = make_batch(make_groups())
    assert len(batch.updates[0][0].token_ids) >= 3
    alone.update(batch.updates[0], **inputs(alone, batch.updates[0]))
    expected = alone.take_metrics()

    def on_rank(critic):
        mine = critic._ranks.share(batch).updates[0]
        critic.update(mine, **inputs(critic, mine))
        return weights(critic), critic.take_metrics()

    critics = [make_critic(double=True, clip=0.2, ranks=ranks) for ranks in thread_ranks(3)]
    for found, metrics in together(on_rank, critics):
        assert distance(found, weights(alone)) < 1e-12
        assert metrics == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert set(expected) == {
        "value/loss",
        "value/mean",
        "value/explained_variance",
        "value/clip_frac",
        "value/grad_norm",
        "value/lr",
        "value/num_skipped_updates",
    }


def test_figures_of_an_update(make_critic, make_batch):
    critic = make_critic(clip=0.2)
    (micro,) = make_batch().updates[0]
    given = inputs(critic, [micro])
    value, returns = given["old_values"][0], given["returns"][0]
    # Old values that lie .5 off the present ones: every value is clipped back by .3, to the worse where that is worse.
    given["old_values"] = [value - 0.5]
    clipped = np.square(value - 0.3 - returns) > np.square(value - returns)
    critic.update([micro], **given)
    metrics = critic.take_metrics()
    assert metrics["value/mean"] == pytest.approx(value.mean(), rel=1e-6)
    assert metrics["value/clip_frac"] == pytest.approx(clipped.mean(), abs=1e-9)
    assert 0 < clipped.mean() < 1
    worse = np.maximum(np.square(value - 0.3 - returns), np.square(value - returns))
    assert metrics["value/loss"] == pytest.approx(worse.mean() / 2, rel=1e-5)
    error = returns - (value - 0.5)
    assert metrics["value/explained_variance"] == pytest.approx(1 - error.var() / returns.var(), rel=1e-9)
    assert critic.take_metrics() == {"value/num_skipped_updates": 0.0}  # they were taken


def test_the_explained_variance_is_of_the_old_values_and_tokens_with_weight(make_critic, make_batch):
    critic = make_critic()
    (micro,) = make_batch().updates[0]
    given = inputs(critic, [micro])
    returns, weight = given["returns"][0], given["weights"][0]
    old = given["old_values"][0] = 0.5 * returns
    weight[:5], old[:5] = 0.0, 100.0
    critic.update([micro], **given)
    metrics = critic.take_metrics()
    assert metrics["value/explained_variance"] == pytest.approx(0.75)  # half the return left: a quarter of its variance
    assert metrics["value/mean"] == pytest.approx(make_critic().values(micro)[5:].mean(), rel=1e-6)


def test_explained_variance_by_hand():
    returns = np.array([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(np.array([1.0, 2.0, 3.0, 4.0]), returns, Ranks()) == 1.0
    assert explained_variance(np.full(4, 9.0), returns, Ranks()) == 0.0
    # errors [0, 1, 1, 2]: variance .5 of 1.25; a constant offset explains no less
    assert explained_variance(np.array([1.0, 1.0, 2.0, 2.0]), returns, Ranks()) == pytest.approx(0.6)
    assert explained_variance(np.array([6.0, 6.0, 7.0, 7.0]), returns, Ranks()) == pytest.approx(0.6)
    assert np.full(11, 0.3).sum() / 11 != 0.3  # a mean is off by rounding
    assert np.isnan(explained_variance(np.arange(11.0), np.full(11, 0.3), Ranks()))
    assert np.isnan(explained_variance(np.zeros(0), np.zeros(0), Ranks()))


def test_explained_variance_rises_with_the_updates(make_critic, make_batch):
    critic = make_critic(lr=1e-2)
    micros = make_batch().updates[0]
    given = inputs(critic, micros)
    before = critic.explained_variance(micros, given["returns"])
    for _ in range(20):
        critic.update(micros, **given)
    assert critic.explained_variance(micros, given["returns"]) > before + 0.2


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_changes_nothing_and_is_counted(make_critic, make_batch, broken):
    critic = make_critic()
    micros = make_batch(micro_batch_tokens=30).updates[0]
    given = inputs(critic, micros)
    before = weights(critic)
    given["returns"][-1][0] = broken
    assert critic.update(micros, **given) is None
    assert all(torch.equal(before[n], p) for n, p in weights(critic).items())
    assert critic.take_metrics() == {"value/num_skipped_updates": 1.0}
    # Nothing of it is left behind in the next gradient.
    fresh = make_critic()
    assert distance(gradients_of(critic, micros), gradients_of(fresh, micros)) == 0.0


def test_a_gradient_that_is_not_finite_is_counted(make_critic, make_batch):
    critic = make_critic()
    micros = make_batch().updates[0]
    before = weights(critic)
    critic.model.head.weight.register_hook(lambda grad: grad * np.inf)
    outcome = critic.update(micros, **inputs(critic, micros))
    assert not outcome.applied
    assert all(torch.equal(before[n], p) for n, p in weights(critic).items())
    assert critic.take_metrics()["value/num_skipped_updates"] == 1.0


def test_an_update_without_weight_makes_no_optimiser_call(make_critic, make_batch):
    critic = make_critic()
    micros = make_batch().updates[0]
    given = inputs(critic, micros) | {"weights": [np.zeros(m.trainable.sum()) for m in micros]}
    before = weights(critic)
    assert critic.update(micros, **given) is None
    assert critic.update([], returns=[], old_values=[], weights=[]) is None
    assert all(torch.equal(before[n], p) for n, p in weights(critic).items())
    assert critic._optimizer.updates_applied == 0


def test_the_warmup_is_its_own(make_critic, make_batch):
    critic = make_critic(lr=4e-4, warmup=4)
    micros = make_batch().updates[0]
    rates = []
    for _ in range(5):
        critic.update(micros, **inputs(critic, micros))
        rates.append(critic.take_metrics()["value/lr"])
    assert rates == pytest.approx([1e-4, 2e-4, 3e-4, 4e-4, 4e-4])


def test_values_after_the_end_are_of_truncated_rollouts(make_critic, make_batch, make_groups):
    critic = make_critic()
    groups = make_groups()
    batch = make_batch(groups)
    (micro,) = batch.updates[0]
    truncated = np.zeros(len(batch.rewards), np.bool_)
    truncated[[2, 5]] = True
    value, ends = critic.values_and_ends(micro, truncated)
    assert value == pytest.approx(critic.values(micro), abs=1e-6)
    rollouts = [r for g in groups for r in g.rollouts]
    for segment, end in ends.items():
        alone = torch.from_numpy(rollouts[segment].token_ids.astype(np.int64))[None]
        states = critic.model.body(alone).last_hidden_state[0]
        assert end == pytest.approx(critic.model.head(states)[-1].item(), abs=1e-5)
    assert ends.keys() == {2, 5}


def test_a_micro_batch_without_tokens_has_no_values(make_critic, make_batch):
    (micro,) = make_batch().updates[0]
    blank = dataclasses.replace(micro, trainable=np.zeros_like(micro.trainable))
    assert make_critic().values(blank).shape == (0,)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_save_load_continue_equals_no_interruption(make_critic, make_batch, tmp_path, dtype):
    micros = make_batch(micro_batch_tokens=60).updates[0]
    straight = make_critic(dtype=dtype, warmup=6, clip=0.2)
    run(straight, micros, 3)
    straight.save(str(tmp_path))
    resumed = make_critic(dtype=dtype, warmup=6, clip=0.2)
    resumed.load(str(tmp_path))
    assert run(resumed, micros, 3) == run(straight, micros, 3)
    for name, p in weights(straight).items():
        assert torch.equal(p, resumed.model.get_parameter(name))


def run(critic, micros, updates):
    figures = []
    for _ in range(updates):
        critic.update(micros, **inputs(critic, micros))
        figures.append(critic.take_metrics())
    return figures


def test_a_broken_checkpoint_is_named(make_critic, tmp_path):
    with pytest.raises(DataError, match="no usable value model"):
        make_critic().load(str(tmp_path))
    make_critic().save(str(tmp_path))
    file = tmp_path / "value.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(DataError, match="no usable value model"):
        make_critic().load(str(tmp_path))


def test_a_checkpoint_of_another_model_is_named(make_critic, model_folder, tmp_path):
    make_critic().save(str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    config = json.loads((tmp_path.parent / model_folder / "config.json").read_text())
    Qwen3ForCausalLM(Qwen3Config(**(config | {"hidden_size": 16}))).save_pretrained(other)
    critic = Critic(ValueModel.from_folder(str(other)), OptimizerSection())
    with pytest.raises(DataError, match="holds another model"):
        critic.load(str(tmp_path))
