"""No packing, split over micro-batches or number of ranks changes the gradient of an update, whatever the algorithm."""

import dataclasses
import itertools
import multiprocessing
import zlib

import numpy as np
import pytest
import torch

from headrace.objectives.table import LOSSES
from headrace.packing.loss_weights import CONSTANT, LOSS_WEIGHTS
from headrace.training.ranks import Ranks
from tests.unit.objectives.sections import SECTIONS
from tests.unit.training.drawn_steps import (
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

WEIGHTS = (*LOSS_WEIGHTS, CONSTANT)
CRITIC_FREE = {"name": "group_relative"}
PARTS = {
    "plain": {},
    "penalty and bonus": {
        "kl": {"coef": 0.05, "estimator": "k3", "importance": True},
        "entropy": {"coef": 0.01},
        "correction": {"mode": "mask", "level": "token", "low": 0.5, "high": 1.5},
    },
    "penalty off the reward": {
        "kl": {"coef": 0.1, "estimator": "k1", "into": "reward"},
        "advantage": CRITIC_FREE | {"mean": "leave_one_out", "scale": "none"},
        "off_policy_mask": {"delta": 0.05},
    },
    "steered": {
        "entropy": {"coef": 0.01, "target": 4.0, "delta": 0.02},
        "adaptive_clip": {"target_entropy": 1.0, "alpha": 0.5, "side": "both"},
        "clip_schedule": {"factor": 0.5},
    },
    "critic": {
        "advantage": {"name": "gae", "gamma": 0.99, "lambda_policy": 0.9, "bootstrap_truncated": True},
        "value": {"clip": 0.2},
        "correction": {"mode": "mask", "level": "sequence", "low": 0.1, "high": 5.0},
    },
    "critic and penalty": {
        "advantage": {"name": "gae", "length_alpha": 0.3, "segment_tokens": 3},
        "value": {"clip": None},
        "kl": {"coef": 0.1, "estimator": "k2", "into": "reward"},
        "correction": {"level": "geometric", "high": 1.1},
    },
    "smoothed": {
        "advantage": {"name": "smoothed"},
        "value": {},
        "truncated": "mask",
        "off_policy_mask": {"delta": 0.1},
    },
    "reinforce++": {
        "advantage": {"name": "reinforce_pp", "gamma": 0.95, "baseline": "group"},
        "kl": {"coef": 0.05, "estimator": "k2", "importance": False},
    },
    "batch scale": {"advantage": CRITIC_FREE | {"mean": "batch", "scale": "raw_batch"}, "truncated": "mask"},
}
LAYOUTS = ("planned", "alone", "drawn")


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def draw_algorithm(rng, name, weight, number):
    """The loss ``name`` with the parts number ``number``, as far as they go together, and an anchor drawn."""
    parts = dict(PARTS[list(PARTS)[number % len(PARTS)]])
    anchor = str(rng.choice(["auto", "behaviour", "proximal"]))
    return {"loss": {"name": name, **SECTIONS[name]}, "loss_weight": weight, "anchor": anchor, **parts}


def gradients(recipe, batch, size=1):
    """Gradients of all updates as each of ``size`` ranks sees them, and what rank 0 says of the step."""

    def work(ranks):
        trainer = make_trainer(recipe, ranks=ranks)
        metrics = trainer.step(batch).metrics
        return recorded(trainer), metrics

    return together(work, thread_ranks(size)) if size > 1 else [work(Ranks())]


def distance(found, expected):
    """The largest ||dg|| / ||g|| of any update."""
    assert len(found) == len(expected) > 0
    return max(float((a - b).norm() / b.norm()) if b.any() else float(a.norm()) for a, b in zip(found, expected))


def check_splits(monkeypatch, model, name, weight, number, *, dtype, bound):
    """Draw a step; pack it as always for one rank, and in another way for 1 to 4 ranks."""
    use_model(monkeypatch, model, dtype=dtype)
    rng = np.random.default_rng(zlib.crc32(f"{name} {weight} {number} {dtype}".encode()))
    algorithm = draw_algorithm(rng, name, weight, number)
    single = dtype == "float32"
    # In float32 gradients that all but cancel are noise, and so are weights many updates further on.
    shape = {"num_minibatches": 2, "num_epochs": 1 if single else int(rng.integers(1, 3))}
    blunt = {"lr": 0.05 if single else 0.5, "eps": 1.0}
    recipe = make_recipe(algorithm, batch=shape, optimizer=blunt)
    groups = draw_groups(rng, model, whole=single)
    lay_out(monkeypatch, rng, "planned")
    ((expected, said),) = gradients(recipe, make_batch(recipe, groups))
    layout, size = str(rng.choice(LAYOUTS)), int(rng.integers(1, 5))
    if layout == "planned":
        recipe = make_recipe(algorithm, batch={**shape, "micro_batch_tokens": 20}, optimizer=blunt)
    lay_out(monkeypatch, rng, layout)
    results = gradients(recipe, make_batch(recipe, groups), size)
    for found, _ in results:
        assert distance(found, expected) <= bound, (layout, size)
    assert results[0][1]["loss/value"] == pytest.approx(said["loss/value"], rel=1e3 * bound, abs=bound)


@pytest.mark.parametrize(("name", "weight"), list(itertools.product(LOSSES, WEIGHTS)))
def test_float64(monkeypatch, model, name, weight):
    """Every objective meets every loss weight, and every set of parts under some loss weight."""
    first = 2 * WEIGHTS.index(weight)
    for number in (first, first + 1):
        check_splits(monkeypatch, model, name, weight, number, dtype="float64", bound=1e-12)


@pytest.mark.parametrize(("name", "weight"), list(itertools.product(LOSSES, WEIGHTS)))
def test_float32(monkeypatch, model, name, weight):
    number = list(LOSSES).index(name) + 2 * WEIGHTS.index(weight)
    check_splits(monkeypatch, model, name, weight, number, dtype="float32", bound=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["kl_cov", "clip_cov"])
def test_tokens_that_are_equal_but_for_who_sampled_them(monkeypatch, model, name, dtype):
    """All rollouts of a group answer alike: which of the equal tokens a rule picks is no matter of their order."""
    use_model(monkeypatch, model, dtype=dtype)
    rng = np.random.default_rng(5)
    picks = {"frac": 0.05} | ({"cov_low": 0.0} if name == "clip_cov" else {})
    recipe = make_recipe({"loss": {"name": name, **picks}, "loss_weight": "token_mean", "anchor": "behaviour"})
    for _ in range(4):
        groups = [
            dataclasses.replace(g, rollouts=tuple(map(first_token, g.rollouts))) for g in whole_groups(rng, model)
        ]
        lay_out(monkeypatch, rng, "planned")
        ((expected, _),) = gradients(recipe, make_batch(recipe, groups))
        lay_out(monkeypatch, rng, "drawn")
        ((found, _),) = gradients(recipe, make_batch(recipe, groups))
        assert distance(found, expected) <= (1e-12 if dtype == "float64" else 3e-6)


def whole_groups(rng, model):
    return draw_groups(rng, model, whole=True)


def first_token(rollout):
    """The rollout with an answer of one token, always the same."""
    end = int(rollout.trainable.argmax()) + 1
    cut = {n: getattr(rollout, n)[:end] for n in ("trainable", "behaviour_logprob", "policy_version")}
    return dataclasses.replace(rollout, token_ids=np.append(rollout.token_ids[: end - 1], np.int32(3)), **cut)


HARD = (("clip_cov", "prompt_mean", "steered"), ("kl_cov", "sample_mean", "critic"), ("bapo", "token_mean", "critic"))


def _gloo_rank(rank, meeting, results):
    torch.set_num_threads(1)
    ranks = Ranks.join(rank, 2, meeting)
    results.put((rank, [[g.numpy() for g in found] for found in _hard_gradients(ranks)]))
    ranks.leave()


def _hard_gradients(ranks):
    """Gradients of one step of each of ``HARD``; the same draws in every process."""
    with pytest.MonkeyPatch.context() as patch:
        model = tiny_model()
        use_model(patch, model, dtype="float64")
        rng = np.random.default_rng(7)
        for name, weight, parts in HARD:
            recipe = make_recipe({"loss": {"name": name, **SECTIONS[name]}, "loss_weight": weight, **PARTS[parts]})
            lay_out(patch, rng, "drawn")
            trainer = make_trainer(recipe, ranks=ranks)
            trainer.step(make_batch(recipe, draw_groups(rng, model)))
            yield recorded(trainer)


@pytest.mark.slow
def test_two_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_gloo_rank, args=(rank, str(tmp_path / "meeting"), results)) for rank in (0, 1)]
    for process in processes:
        process.start()
    expected = list(_hard_gradients(Ranks()))
    for _ in processes:
        _, found = results.get(timeout=120)
        for one, other in zip(found, expected, strict=True):
            assert distance([torch.from_numpy(g) for g in one], other) <= 1e-12
    for process in processes:
        process.join()
