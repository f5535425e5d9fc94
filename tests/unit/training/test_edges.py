"""Steps at the edges: masked through and through, without spread, out of range. Defined results, no NaN, counted."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from headrace.curation.zero_variance import RULES
from headrace.models.logprobs import score_sequences
from headrace.objectives.table import LOSSES
from headrace.records import Verdict
from headrace.training.metrics import StepMeter
from tests.unit.objectives.sections import SECTIONS
from tests.unit.training.drawn_steps import (
    STEP,
    draw_groups,
    lay_out,
    make_batch,
    make_recipe,
    make_trainer,
    recorded,
    tiny_model,
    use_model,
)
from tests.unit.training.thread_ranks import thread_ranks, together


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture
def groups(monkeypatch, model):
    use_model(monkeypatch, model)
    return draw_groups(np.random.default_rng(3), model, groups=4, whole=True)


def each(group, change):
    return dataclasses.replace(group, rollouts=tuple(change(index, r) for index, r in enumerate(group.rollouts)))


def rewarded(group, *rewards):
    """The group with these rewards; None: not judged."""
    verdicts = [Verdict(reward=None, error="judge down") if r is None else Verdict(reward=float(r)) for r in rewards]
    return each(group, lambda index, r: dataclasses.replace(r, verdict=verdicts[index]))


def run(recipe, groups, trainer=None):
    """One step; the trainer and its metrics, none of which is NaN or infinite."""
    trainer = trainer or make_trainer(recipe)
    metrics = trainer.step(make_batch(recipe, groups, step=trainer.version, max_lag=8)).metrics
    assert all(np.isfinite(value) for value in metrics.values())
    return trainer, metrics


def everything(trainer):
    """Weights, moments, counters and memory of a trainer and its critic, copied."""
    parts = {"adaptive": trainer._updater.state.to_dict(), "policy": trainer._optimizer.state_dict()}
    parts["weights"] = dict(trainer._model.named_parameters())
    if trainer._critic is not None:
        parts["critic"] = trainer._critic._optimizer.state_dict()
        parts["value weights"] = dict(trainer._critic.model.named_parameters())
    return flat(copy.deepcopy(parts))


def flat(tree, path=""):
    if isinstance(tree, dict | list | tuple):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {key: value for name, part in items for key, value in flat(part, f"{path}/{name}").items()}
    return {path: tree}


def unchanged(before, after):
    assert before.keys() == after.keys()
    return all(
        torch.equal(value, after[key]) if isinstance(value, torch.Tensor) else value == after[key]
        for key, value in before.items()
    )


CRITIC = {"advantage": {"name": "gae"}, "value": {"lr": 1e-2}}
STEERED = {"entropy": {"coef": 0.01, "target": 2.0}, "adaptive_clip": {"target_entropy": 1.0}}


@pytest.mark.parametrize("parts", [STEERED, CRITIC], ids=["steered", "critic"])
@pytest.mark.parametrize("why", ["no signal", "nobody judged", "all truncated", "broken log-probabilities"])
def test_a_masked_step_touches_nothing(groups, parts, why):
    """After a step that left moments behind: a call of the optimiser, even with a gradient of 0, would move weights."""
    recipe = make_recipe({"truncated": "mask", **parts}, optimizer={"lr": 0.1, "warmup": 8, "weight_decay": 0.1})
    trainer, _ = run(recipe, groups)
    before = everything(trainer)
    changes = {
        "no signal": lambda g: dataclasses.replace(g, signal=False),
        "nobody judged": lambda g: rewarded(g, None, None, None, None),
        "all truncated": lambda g: each(g, lambda _, r: dataclasses.replace(r, finish_reason="length")),
        "broken log-probabilities": lambda g: each(g, broken),
    }
    _, metrics = run(recipe, [changes[why](g) for g in groups], trainer)
    assert unchanged(before, everything(trainer))
    assert metrics["trainer/num_empty_updates"] == metrics["trainer/num_skipped_updates"] == 2
    assert metrics["trainer/num_updates"] == 0
    assert not [name for name in metrics if name.startswith("loss/")]
    assert trainer.version == STEP + 2


def broken(index, rollout):
    return dataclasses.replace(rollout, behaviour_logprob=np.where(rollout.trainable, np.nan, 0).astype(np.float32))


def test_one_masked_update_of_two(groups):
    recipe = make_recipe({"loss": {"name": "bapo"}})
    half = [groups[0], groups[1], *(dataclasses.replace(g, signal=False) for g in groups[2:])]
    # Groups without signal are dealt out to no update: both updates hold one group each.
    _, metrics = run(recipe, half)
    assert (metrics["trainer/num_updates"], metrics["trainer/num_empty_updates"]) == (2, 0)
    alone = [groups[0], *(dataclasses.replace(g, signal=False) for g in groups[1:])]
    trainer, metrics = run(recipe, alone)
    assert (metrics["trainer/num_updates"], metrics["trainer/num_empty_updates"]) == (1, 1)
    assert trainer._optimizer.updates_applied == 1


@pytest.mark.parametrize(
    "mask",
    [
        {"off_policy_mask": {"delta": 0.1}},
        {"anchor": "proximal", "correction": {"mode": "mask", "low": 0.9, "high": 1.1}},
    ],
    ids=["sequences", "tokens"],
)
def test_masks_that_leave_no_token(groups, mask):
    """The policy has left all of it: less likely than when it was sampled, and all advantages are negative."""
    recipe = make_recipe({"advantage": {"name": "group_relative", "mean": "none", "scale": "none"}, **mask})
    trainer, _ = run(recipe, groups)
    before = everything(trainer)
    gone = [rewarded(each(g, sure), -1, -1, -2, -1) for g in groups]
    _, metrics = run(recipe, gone, trainer)
    assert unchanged(before, everything(trainer))
    assert metrics["trainer/num_empty_updates"] == 2
    # What is left in the loss beside the masked term still trains.
    kept = make_recipe({**recipe.algorithm.model_dump(mode="json"), "entropy": {"coef": 0.01}})
    assert run(kept, gone)[1]["trainer/num_updates"] == 2


def sure(index, rollout):
    """Sampled, so it says, at probability .999."""
    return dataclasses.replace(rollout, behaviour_logprob=np.where(rollout.trainable, np.float32(-1e-3), np.float32(0)))


MEANS, SCALES = ("none", "group", "leave_one_out", "batch"), ("none", "group", "batch", "raw_batch")


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("scale", SCALES)
def test_one_judged_member_is_a_group_without_spread(groups, mean, scale):
    """It gets 0 where its own group is the measure, and what its reward says where it is not; never NaN."""
    lonely = [rewarded(groups[0], 1, None, None, None), rewarded(groups[1], 1, 0, 0, 0)]
    recipe = make_recipe(
        {"advantage": {"name": "group_relative", "mean": mean, "scale": scale}}, batch={"num_minibatches": 1}
    )
    batch = make_batch(recipe, lonely, max_lag=8)
    advantage = [m.advantage[m.segment == 0][m.trainable[m.segment == 0]] for u in batch.updates for m in u]
    advantage = np.concatenate(advantage)
    assert len(advantage) == groups[0].rollouts[0].num_trainable
    # Rewards 1 | 1 0 0 0. Batch mean .4: .6 centred; batch deviation of the rewards, ddof 1: .5477, ddof 0: .4899.
    expected = {"none": 1.0, "batch": 0.6, "group": 0.0, "leave_one_out": 0.0}[mean]
    expected /= {"none": 1.0, "batch": 0.4898979, "raw_batch": 0.5477226, "group": np.inf}[scale]
    assert advantage == pytest.approx(expected, rel=1e-4)
    _, metrics = run(recipe, lonely)
    assert metrics["trainer/num_updates"] == 1


@pytest.mark.parametrize("advantage", ["group_relative", "reinforce_pp"])
def test_a_group_of_one_rollout_that_is_alone(groups, advantage):
    """An update of one judged rollout: nothing to compare it with, so its gradient is 0."""
    recipe = make_recipe({"advantage": {"name": advantage}}, batch={"num_minibatches": 1})
    trainer, metrics = run(recipe, [rewarded(groups[0], 1, None, None, None)])
    (gradient,) = recorded(trainer)
    assert not gradient.any()
    assert metrics["loss/advantage_abs_mean"] == 0
    assert metrics["trainer/num_updates"] == 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_equal_rewards_under_each_rule(groups, rule, value):
    recipe = make_recipe({"zero_variance": rule})
    equal = [RULES[rule](rewarded(g, value, value, value, value), 1e-6) for g in groups]
    kept = [group for group in equal if group is not None]
    assert len(kept) == {"keep": 4, "shrink": 4, "refill": 0}[rule]
    trainer, metrics = run(recipe, kept)
    if rule == "keep":  # they train, at a gradient of exactly 0
        assert metrics["trainer/num_updates"] == 2
        assert not any(gradient.any() for gradient in recorded(trainer))
        assert metrics["loss/value"] == metrics["loss/advantage_abs_mean"] == 0
    else:
        assert metrics["trainer/num_empty_updates"] == 2
        assert recorded(trainer) == []


@pytest.mark.parametrize("anchor", ["behaviour", "proximal"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_log_ratio_that_overflows(groups, name, anchor):
    """The sampler was certain, or all but ruled the token out: log ratios of some -100 and of +100."""
    far = [each(g, lambda i, r: overflowing(r, -100.0 if i < 2 else -1e-6)) for g in groups]
    recipe = make_recipe(
        {"loss": {"name": name, **SECTIONS[name]}, "anchor": anchor, "correction": {"level": "sequence"}},
        batch={"num_minibatches": 1},
    )
    trainer, metrics = run(recipe, far)
    assert metrics["trainer/num_updates"] == 1
    assert all(torch.isfinite(gradient).all() for gradient in recorded(trainer))
    if anchor == "behaviour" and name != "reinforce":
        tokens = sum(r.num_trainable for g in far for r in g.rollouts)
        above = sum(r.num_trainable for g in far for r in g.rollouts[:2])
        assert metrics["loss/log_ratio_clamped_frac"] == pytest.approx(above / tokens)


def overflowing(rollout, logprob):
    return dataclasses.replace(
        rollout, behaviour_logprob=np.where(rollout.trainable, np.float32(logprob), np.float32(0))
    )


def without(model, token):
    """The model with a head that rules ``token`` out: its logit is -inf in every context."""
    barred = copy.deepcopy(model)
    barred.config.tie_word_embeddings = False
    barred.lm_head.weight = torch.nn.Parameter(barred.lm_head.weight.detach().clone())
    with torch.no_grad():
        barred.model.embed_tokens.weight[:, 0] = 50.0  # far above what two layers add: positive at the head
        barred.lm_head.weight[:, 0] = 0.0
        barred.lm_head.weight[token] = 0.0
        barred.lm_head.weight[token, 0] = -torch.inf
    return barred


@pytest.mark.parametrize(
    "parts",
    [
        {"loss": {"name": "kl_cov"}},
        {"loss": {"name": "bapo"}, "entropy": {"coef": 0.01}},
        {"anchor": "proximal", "kl": {"into": "reward"}},
        {**CRITIC, "kl": {}},
    ],
    ids=["kl_cov", "bapo", "penalty off the reward", "critic"],
)
def test_a_sampled_token_that_the_policy_rules_out(monkeypatch, model, parts):
    """log pi = -inf: no update, on no rank, and counted; the critic, which reads no log-probability, goes on."""
    barred = without(model, 5)
    sampled = np.array([1, 2, 5], np.int32)
    assert score_sequences(barred, [sampled])[0][1] == -np.inf
    use_model(monkeypatch, barred)
    groups = draw_groups(np.random.default_rng(3), model, groups=4, whole=True)
    recipe = make_recipe(parts, batch={"num_minibatches": 1, "micro_batch_tokens": 40})
    assert any((r.token_ids[r.trainable] == 5).any() for g in groups for r in g.rollouts)
    trainer = make_trainer(recipe)
    before = {name: p.detach().clone() for name, p in trainer._model.named_parameters()}
    _, metrics = run(recipe, groups, trainer)
    assert all(torch.equal(p, before[name]) for name, p in trainer._model.named_parameters())
    assert metrics["trainer/num_nonfinite_updates"] == metrics["trainer/num_skipped_updates"] == 1
    assert trainer._optimizer.updates_applied == 0
    assert ("value/loss" in metrics) == ("value" in parts)


@pytest.mark.parametrize("into", ["loss", "reward"])
@pytest.mark.parametrize("advantage", ["group_relative", "reinforce_pp"])
def test_a_sampled_token_that_the_reference_rules_out(monkeypatch, model, groups, into, advantage):
    """Its log ratio counts as 20; the update is made."""
    monkeypatch.setattr("headrace.training.reference.load_causal_lm", lambda *a, **k: without(model, 5))
    recipe = make_recipe(
        {"kl": {"into": into, "estimator": "k1", "coef": 0.01}, "advantage": {"name": advantage}},
        batch={"num_minibatches": 1},
    )
    trainer, metrics = run(recipe, groups)
    assert metrics["trainer/num_updates"] == 1
    assert all(torch.isfinite(gradient).all() for gradient in recorded(trainer))


@pytest.mark.parametrize("name", ["ppo_clip", "bapo", "clip_cov", "kl_cov"])
def test_a_rank_without_rows_takes_part_in_every_exchange(monkeypatch, model, groups, name):
    """Two rows, three ranks: the last one adds nothing, keeps nobody waiting and has the same sums."""
    lay_out(monkeypatch, None, "planned")
    recipe = make_recipe(
        {"loss": {"name": name, **SECTIONS[name]}, "advantage": {"name": "gae"}, "value": {}, "anchor": "behaviour"},
        batch={"num_minibatches": 1},
    )
    batch = make_batch(recipe, [rewarded(groups[0], 1, 0, 0, None)], max_lag=8)
    assert [m.token_ids.shape[0] for m in batch.updates[0]] == [2]
    alone = make_trainer(recipe)
    alone.step(batch)
    trainers = [make_trainer(recipe, ranks=ranks) for ranks in thread_ranks(3)]
    together(lambda trainer: trainer.step(batch), trainers)
    for trainer in trainers:
        for found, expected in zip(recorded(trainer), recorded(alone), strict=True):
            assert (found - expected).norm() <= 1e-6 * expected.norm()


def test_micro_batches_add_up_to_a_mean(monkeypatch, model, groups):
    """Four rollouts, a micro-batch each, every rollout counting the same: the gradient is the mean of the four that
    each rollout gives by itself."""
    recipe = make_recipe(
        {"loss": {"name": "reinforce"}, "advantage": {"name": "group_relative", "mean": "none", "scale": "none"}},
        batch={"num_minibatches": 1},
    )
    group = rewarded(groups[0], 3, 5, 7, 9)
    single = []
    for one in range(4):
        masked = [r if index == one else None for index, r in enumerate((3, 5, 7, 9))]
        single += recorded(run(recipe, [rewarded(group, *masked)])[0])

    class OneByOne:
        def permutation(self, total):
            return np.arange(total)

        def integers(self, low, high):
            return high - 1

    lay_out(monkeypatch, OneByOne(), "alone")
    batch = make_batch(recipe, [group], max_lag=8)
    assert len(batch.updates[0]) == 4
    (gradient,) = recorded(run(recipe, [group])[0])
    mean = torch.stack(single).mean(0)
    assert (gradient - mean).norm() <= 1e-5 * mean.norm()


def test_ratios_are_averaged_over_the_tokens_that_train(monkeypatch, model, groups):
    """Ratios .5, 1.1 and 1.6 of three answers of one token, and 9 of one nobody could judge. One in three is capped,
    and nothing is called clipped."""
    ratios = (0.5, 1.1, 1.6, 9.0)
    group = rewarded(groups[0], 1, 0, 0, None)
    cut = [dataclasses.replace(r, **first_token(r)) for r in group.rollouts]
    scores = score_sequences(model, [r.token_ids for r in cut])
    cut = [
        dataclasses.replace(r, behaviour_logprob=shifted(r, s, q)) for r, s, q in zip(cut, scores, ratios, strict=True)
    ]
    group = dataclasses.replace(group, rollouts=tuple(cut))
    recipe = make_recipe({"loss": {"name": "cispo", "ratio_max": 1.28}}, batch={"num_minibatches": 1})
    _, metrics = run(recipe, [group])
    assert metrics["loss/ratio_mean"] == pytest.approx(3.2 / 3, rel=1e-5)
    assert metrics["loss/ratio_capped_frac"] == pytest.approx(1 / 3)
    assert not [name for name in metrics if "clip_frac" in name]
    recipe = make_recipe({"loss": {"name": "gspo"}, "anchor": "behaviour"}, batch={"num_minibatches": 1})
    assert run(recipe, [group])[1]["loss/ratio_mean"] == pytest.approx(3.2 / 3, rel=1e-5)


def first_token(rollout):
    end = int(rollout.trainable.argmax()) + 1
    names = ("token_ids", "trainable", "behaviour_logprob", "policy_version")
    return {name: getattr(rollout, name)[:end] for name in names}


def shifted(rollout, score, ratio):
    """Behaviour log-probabilities at which the policy's ratio is ``ratio``; scores are of tokens 1, 2, ..."""
    logprob = np.append(np.float32(0), score - np.float32(np.log(ratio)))
    return np.where(rollout.trainable, logprob, np.float32(0)).astype(np.float32)


def test_a_step_without_tokens_has_no_figures_of_them():
    assert not [name for name in StepMeter().result() if name.startswith(("loss/", "optim/", "rollout/"))]
