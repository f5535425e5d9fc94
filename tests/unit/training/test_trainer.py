import dataclasses

import numpy as np
import pytest
import torch

from headrace.errors import LagViolation, RecordError
from headrace.models.logprobs import row_tensors, trainable_logprobs


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer._model.named_parameters()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def scored(trainer, batch):
    """Log-probabilities of the batch's trainable tokens and their advantages, at the trainer's current weights."""
    with torch.no_grad():
        parts = [trainable_logprobs(trainer._model, row_tensors(m), temperature=1.0).logprob for m in batch.updates[0]]
    advantage = np.concatenate([m.advantage[m.trainable] for m in batch.updates[0]])
    return torch.cat(parts).double(), torch.from_numpy(advantage).double()


def with_micro(batch, **fields):
    """The batch with arrays of its first micro-batch replaced."""
    first = dataclasses.replace(batch.updates[0][0], **fields)
    return dataclasses.replace(batch, updates=((first, *batch.updates[0][1:]), *batch.updates[1:]))


@pytest.mark.parametrize("loss", ["ppo", "cispo"])
def test_reward_raises_the_log_probability_of_what_was_rewarded(
    make_trainer, make_recipe, make_groups, make_batch, cispo, loss
):
    trainer = make_trainer(make_recipe(cispo if loss == "cispo" else None, lr=3e-3))
    before, advantage = scored(trainer, make_batch())
    for step in range(5):
        groups = make_groups(version=step)
        trainer.step(make_batch(groups, step=step))
    after, _ = scored(trainer, make_batch())
    change = after - before
    assert change[advantage > 0].mean() > 0.05
    assert change[advantage < 0].mean() < -0.05


def test_the_first_gradient_is_the_policy_gradient(make_trainer, make_batch):
    trainer = make_trainer()
    batch = make_batch()
    logprob, _ = scored(trainer, batch)
    behaviour = logprob.float().numpy()
    # On-policy, the ratio is 1 and the gradient of every objective here is -sum(weight * A * grad log pi).
    fields = np.zeros_like(batch.updates[0][0].behaviour_logprob)
    fields[batch.updates[0][0].trainable] = behaviour
    batch = with_micro(batch, behaviour_logprob=fields)
    micro = batch.updates[0][0]
    scores = trainable_logprobs(trainer._model, row_tensors(micro), temperature=1.0).logprob
    flat = torch.from_numpy((micro.loss_weight * micro.advantage)[micro.trainable])
    expected = torch.autograd.grad(-(scores.double() * flat).sum(), list(trainer._model.parameters()))
    norm = sum(g.double().square().sum() for g in expected) ** 0.5
    metrics = trainer.step(batch).metrics
    assert metrics["optim/grad_norm"] == pytest.approx(norm.item(), rel=1e-5)
    assert metrics["loss/value"] == pytest.approx(-flat.sum().item(), abs=1e-6)
    assert metrics["loss/ratio_mean"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["loss/ess_frac"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["loss/mismatch_kl"] == pytest.approx(0.0, abs=1e-6)


def test_micro_batches_do_not_change_the_update(make_trainer, make_batch, make_groups):
    norms, changed = [], []
    for budget in (32, 64, 1024):
        trainer = make_trainer()
        start = weights(trainer)
        norms.append(trainer.step(make_batch(make_groups(), micro_batch_tokens=budget)).metrics["optim/grad_norm"])
        changed.append(torch.cat([(p - start[n]).flatten() for n, p in weights(trainer).items()]))
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-5)
    # Adam's first step is lr * sign(gradient): compare where the gradient is not rounding noise.
    assert (changed[0] - changed[2]).norm() <= 1e-2 * changed[0].norm()


def test_gradient_checkpointing_changes_nothing_but_memory(make_trainer, make_recipe, make_batch):
    plain, checkpointed = make_trainer(), make_trainer(make_recipe(checkpointing=True))
    first, second = plain.step(make_batch()).metrics, checkpointed.step(make_batch()).metrics
    assert second["optim/grad_norm"] == pytest.approx(first["optim/grad_norm"], rel=1e-5)
    assert second["loss/value"] == pytest.approx(first["loss/value"], abs=1e-6)


@pytest.mark.parametrize(("version", "max_lag", "lag"), [(1, 2, 4), (4, 2, 1)])
def test_lag_within_the_bound_is_trained_and_reported(make_trainer, make_groups, make_batch, version, max_lag, lag):
    trainer = make_trainer()
    trainer.version = 5
    batch = make_batch(make_groups(version=version), step=5, max_lag=4)
    metrics = trainer.step(batch).metrics
    assert (metrics["rollout/lag_mean"], metrics["rollout/lag_max"]) == (lag, lag)


@pytest.mark.parametrize("version", [2, 6])
def test_lag_out_of_bounds_stops_before_anything_changes(make_trainer, make_groups, make_batch, version):
    trainer = make_trainer()
    trainer.version = 5
    start = weights(trainer)
    batch = make_batch(make_groups(version=5), step=5, max_lag=2)
    micro = batch.updates[0][0]
    stale = micro.policy_version.copy()
    stale[tuple(np.argwhere(micro.trainable)[-1])] = version
    with pytest.raises(LagViolation, match=f"lag {5 - version}"):
        trainer.step(with_micro(batch, policy_version=stale))
    assert same(start, weights(trainer))
    assert trainer.version == 5


def test_a_batch_for_another_step_or_lineage_is_refused(make_trainer, make_batch):
    trainer = make_trainer()
    with pytest.raises(RecordError, match="cut for step 3, the trainer is at version 0"):
        trainer.step(make_batch(step=3))
    with pytest.raises(RecordError, match="lineage 1"):
        trainer.step(make_batch(lineage=1))


def test_a_batch_without_signal_advances_the_version_and_nothing_else(
    make_trainer, make_recipe, make_groups, make_batch
):
    trainer = make_trainer(make_recipe(warmup=4))
    start = weights(trainer)
    groups = [dataclasses.replace(g, signal=False) for g in make_groups()]
    result = trainer.step(make_batch(groups))
    assert same(start, weights(trainer))
    assert (result.version, trainer.num_skipped_updates) == (1, 1)
    assert result.metrics["trainer/num_empty_updates"] == 1
    assert trainer._optimizer.updates_applied == 0
    assert all(np.isfinite(v) for v in result.metrics.values())
    assert "loss/ratio_mean" not in result.metrics
    # The schedule did not move: the next update is the first of the warm-up.
    assert trainer.step(make_batch(make_groups(version=1), step=1)).metrics["optim/lr"] == pytest.approx(1e-3 / 4)


@pytest.mark.parametrize("where", ["advantage", "behaviour"])
def test_non_finite_numbers_skip_the_update_and_are_counted(make_trainer, make_groups, make_batch, where):
    trainer = make_trainer()
    start = weights(trainer)
    batch = make_batch()
    micro = batch.updates[0][0]
    field = "advantage" if where == "advantage" else "behaviour_logprob"
    broken = getattr(micro, field).copy()
    broken[tuple(np.argwhere(micro.trainable)[0])] = np.nan
    metrics = trainer.step(with_micro(batch, **{field: broken})).metrics
    assert same(start, weights(trainer))
    assert metrics["trainer/num_nonfinite_updates"] == metrics["trainer/num_skipped_updates"] == 1
    assert all(np.isfinite(v) for v in metrics.values())
    # No trace of it is left in the accumulated gradient of the next update.
    fresh = make_trainer()
    fresh.version = 1
    following = make_batch(make_groups(version=1), step=1)
    fresh_norm = fresh.step(following).metrics["optim/grad_norm"]
    assert trainer.step(following).metrics["optim/grad_norm"] == fresh_norm


def test_non_finite_weights_gradient_is_skipped(make_trainer, make_batch, monkeypatch):
    trainer = make_trainer()
    start = weights(trainer)
    name, parameter = next(iter(trainer._model.named_parameters()))
    parameter.register_hook(lambda grad: grad * torch.nan)
    metrics = trainer.step(make_batch()).metrics
    assert same(start, weights(trainer)), name
    assert metrics["trainer/num_nonfinite_updates"] == 1


def test_several_updates_use_the_proximal_anchor(make_trainer, make_recipe, make_groups, make_batch):
    # Behaviour log-probabilities far below the policy's: with a behaviour anchor every ratio would be large.
    groups = make_groups(logprob=-8.0)
    trainer = make_trainer(make_recipe(minibatches=2, epochs=2, lr=1e-5))
    metrics = trainer.step(make_batch(groups, num_minibatches=2, num_epochs=2)).metrics
    assert metrics["trainer/num_updates"] == 4
    assert metrics["loss/ratio_mean"] == pytest.approx(1.0, abs=1e-2)
    assert metrics["loss/ess_frac"] < 1.0
    assert metrics["loss/mismatch_kl"] < -3


def test_the_truncated_correction_scales_the_loss_of_several_updates(
    make_trainer, make_recipe, make_groups, make_batch
):
    # Every token's weight pi_prox / pi_behaviour is far above 2, so the gradient is twice that of weight 1.
    recipe = make_recipe(minibatches=2, lr=1e-9)
    corrected = make_trainer(recipe).step(make_batch(make_groups(logprob=-9.0), num_minibatches=2)).metrics
    probe = make_trainer(recipe)
    batch = make_batch(make_groups(), num_minibatches=2)
    exact = []
    for update in batch.updates:
        micros = []
        for micro in update:
            with torch.no_grad():
                scores = trainable_logprobs(probe._model, row_tensors(micro), temperature=1.0).logprob.numpy()
            values = np.zeros_like(micro.behaviour_logprob)
            values[micro.trainable] = scores
            micros.append(dataclasses.replace(micro, behaviour_logprob=values))
        exact.append(tuple(micros))
    plain = probe.step(dataclasses.replace(batch, updates=tuple(exact))).metrics
    assert corrected["optim/grad_norm"] == pytest.approx(2 * plain["optim/grad_norm"], rel=1e-3)


def test_cispo_keeps_the_behaviour_anchor_over_several_updates(
    make_trainer, make_recipe, make_groups, make_batch, cispo
):
    trainer = make_trainer(make_recipe(cispo, minibatches=2, lr=1e-6))
    metrics = trainer.step(make_batch(make_groups(logprob=-9.0), num_minibatches=2)).metrics
    assert metrics["loss/ratio_capped_frac"] == pytest.approx(1.0)
    assert "loss/clip_frac_high" not in metrics


def test_warm_up_as_a_fraction_of_all_updates(make_trainer, make_recipe, make_groups, make_batch):
    trainer = make_trainer(make_recipe(minibatches=2, warmup=0.2), total_steps=10)  # 20 updates, 4 of warm-up
    rates = []
    for step in range(3):
        batch = make_batch(make_groups(version=step), step=step, num_minibatches=2)
        rates.append(trainer.step(batch).metrics["optim/lr"])
    assert rates == pytest.approx([0.5e-3, 1e-3, 1e-3])


def test_clip_fractions_are_seen(make_trainer, make_groups, make_batch):
    metrics = make_trainer().step(make_batch(make_groups(logprob=-9.0))).metrics
    positive = sum(float((m.advantage[m.trainable] > 0).sum()) for m in make_batch().updates[0])
    total = sum(int(m.trainable.sum()) for m in make_batch().updates[0])
    assert metrics["loss/clip_frac_high"] == pytest.approx(positive / total)
    assert metrics["loss/clip_frac_low"] == 0


def test_flops_of_one_step_by_hand(make_trainer, make_batch):
    batch = make_batch()
    metrics = make_trainer().step(batch).metrics
    h, i, v = 32, 48, 24
    layer = h * 32 + 2 * h * 16 + 32 * h + 3 * h * i  # q, k and v, o, feed-forward
    body = 2 * (layer + 2 * h + 2 * 8) + h  # norms: two of the layer, two of the heads, the last one
    visible = sum(int((m.position_ids[m.segment >= 0] + 1).sum()) for m in batch.updates[0])
    forward = 2 * body * batch.num_tokens + 4 * 2 * 4 * 8 * visible + 2 * h * v * batch.num_trainable
    assert metrics["trainer/flops"] == 3 * forward
    assert metrics["trainer/tokens"] == batch.num_tokens
