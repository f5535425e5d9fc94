"""No key is a dummy: another value of it changes the gradient, or what is sampled, kept or drawn."""

import asyncio
import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import headrace.training.token_advantages as token_advantages
from headrace.build import lag_bound, sampling_temperature
from headrace.config.conflicts import fights, inert_keys
from headrace.config.layers import leaves, make_layer, merge
from headrace.config.load import bundled_recipes, load
from headrace.config.sections import Recipe
from headrace.config.validation import validate
from headrace.config.yaml_text import parse_yaml
from headrace.curation.curated_source import curated_source
from headrace.curation.replay import may_train_again
from headrace.curation.zero_variance import RULES
from headrace.errors import DataError
from headrace.records import Completion, Group, Prompt, Verdict
from headrace.tasks.interrupted import Interrupted, interruption_of
from tests.unit.config.test_algorithm_parts import INERT
from tests.unit.training.drawn_steps import (
    LIMIT,
    STEP,
    draw_groups,
    lay_out,
    make_batch,
    make_trainer,
    recorded,
    tiny_model,
    use_model,
)
from tests.unit.training.knob_table import ELSEWHERE, REQUIRED, TABLE, documented, split_id

SHRUNK = {
    "run.steps": 10,
    "sampling.max_completion_tokens": LIMIT,
    "batch.groups_per_step": 6,
    "batch.group_size": 4,
    "batch.num_minibatches": 2,
    "batch.num_epochs": 1,
    "batch.micro_batch_tokens": 4096,
    "async.max_lag": 8,
    "optimizer.lr": 2.0,  # with an epsilon this blunt: large steps of ordinary size
    "optimizer.eps": 0.5,
    "optimizer.warmup": 0,
}
REWARDS = ([0, 1, 0, 1], [1, 1, 1, 1], [0.2, 0.6, 0.3, 0.4], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0.5, 1, 0])


def put(tree, path, value):
    *sections, key = path.split(".")
    for section in sections:
        if not isinstance(tree.get(section), dict):
            tree[section] = {}
        tree = tree[section]
    tree[key] = value


def changed(tree, changes):
    """A copy of a recipe's tree with values by path; another kind of loss or advantage leaves its keys behind."""
    tree = copy.deepcopy(tree)
    for path, value in changes.items():
        if path.endswith(".name"):
            put(tree, path.removesuffix(".name"), {"name": value})
            needs_values = value in ("gae", "smoothed")
            if "advantage" in path and needs_values != bool(tree["algorithm"].get("value")):
                put(tree, "algorithm.value", {} if needs_values else None)
        else:
            put(tree, path, value)
    return tree


def recipe_of(tree):
    return validate(tree, where=lambda path: "test")


class Bench:
    """Observables of a recipe. Runs are kept: many keys share the one they are compared with."""

    def __init__(self):
        self.model = tiny_model()
        self.groups = _groups(self.model)
        self._known = {}

    def see(self, what, tree):
        name = what + json.dumps(tree, sort_keys=True)
        if name not in self._known:
            self._known[name] = getattr(self, what)(recipe_of(tree))
        return self._known[name]

    def gradients(self, recipe: Recipe):
        """Every gradient of two steps of two updates, and their losses: from verdicts to optimiser."""
        with pytest.MonkeyPatch.context() as patch:
            use_model(patch, self.model, folders=(ELSEWHERE,))
            trainer = make_trainer(recipe, total_steps=recipe.run.steps)
            rule = RULES[recipe.algorithm.zero_variance]
            kept = [rule(group, recipe.algorithm.zero_variance_tolerance) for group in self.groups]
            losses = []
            for step in (STEP, STEP + 1):
                batch = make_batch(recipe, [group for group in kept if group is not None], step=step, max_lag=8)
                losses.append(trainer.step(batch).metrics.get("loss/value", 0.0))
            return [*recorded(trainer), torch.tensor(losses)]

    def pieces(self, recipe: Recipe):
        """The lengths of the pieces that advantages are worked out in."""
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            real = token_advantages.segment_gae

            def spy(*values, segment_tokens, **keys):
                seen.append(float(segment_tokens or 0))
                return real(*values, segment_tokens=segment_tokens, **keys)

            patch.setattr(token_advantages, "segment_gae", spy)
            self.gradients(recipe)
        return [torch.tensor(seen)]

    def prompts(self, recipe: Recipe):
        """The rows drawn from a set of eight, three in flight: some solved always, some at first, some at last."""
        source = curated_source(
            _Rows(), recipe.algorithm.pass_rate, group_size=4, groups_per_step=1, seed=recipe.run.seed
        )
        drawn, visits, flying = [], [0] * 8, []
        for admission in range(64):
            try:
                prompt = source.at(admission)
            except DataError:
                break
            drawn.append(prompt.index)
            flying.append(_judged(prompt, admission, _passes(prompt.index, visits[prompt.index])))
            visits[prompt.index] += 1
            if len(flying) == 4:
                source.finished(flying.pop(0))
        return [torch.tensor(drawn)]

    def rollouts(self, recipe: Recipe):
        """Tokens of rollouts whose thinking was interrupted, and which of them train."""
        environment = Interrupted(interruption_of(recipe, _Letters()))
        prompt = Prompt(prompt_id="", source="", text="", token_ids=np.array([1], np.int32), row={})
        found = []
        for seed in range(12):
            (rollout,) = asyncio.run(environment.run(prompt, _Sampler(seed), group_id="", seed=seed))
            found += [torch.from_numpy(rollout.token_ids), torch.from_numpy(rollout.trainable)]
        return found

    def bounds(self, recipe: Recipe):
        return [torch.tensor([lag_bound(recipe)(step) for step in range(10)])]

    def temperatures(self, recipe: Recipe):
        return [torch.tensor([sampling_temperature(recipe)(step) for step in range(10)])]

    def uses(self, recipe: Recipe):
        most = recipe.async_.max_uses
        return [torch.tensor([may_train_again(self.groups[0], uses, most) for uses in range(1, 5)])]


def _groups(model):
    rng = np.random.default_rng(11)
    groups = []
    for group, rewards in zip(draw_groups(rng, model, groups=6, whole=True, drift=0.8), REWARDS, strict=True):
        rollouts = [_verdict(r, reward) for r, reward in zip(group.rollouts, rewards, strict=True)]
        groups.append(_with(group, rollouts=tuple(rollouts)))
    return groups


def _with(record, **fields):
    return type(record)(**{name: getattr(record, name) for name in record.__dataclass_fields__} | fields)


def _verdict(rollout, reward):
    return _with(rollout, verdict=Verdict(reward=float(reward), passed=reward == 1))


class _Rows:
    name = "rows"

    def __len__(self):
        return 8

    def index(self, position):
        return position % 8

    def at(self, position):
        row = position % 8
        return Prompt(prompt_id=str(row), source="rows", text="", token_ids=np.zeros(1, np.int32), row={}, index=row)


def _passes(row, visit):
    """Which of four completions pass: all of rows 0 and 7, three of row 1, of row 2 those of the first visits, ..."""
    shares = (4, 3, 4 if visit < 2 else 0, 4 if visit > 1 else 0, 4 if visit % 2 else 3, 0, 2, 4)
    return [index < shares[row] for index in range(4)]


def _judged(prompt, admission, passes):
    rollouts = tuple(_Passed(Verdict(reward=1.0 if p else 0.3, passed=p)) for p in passes)
    return Group(group_id="", prompt=prompt, admission=admission, rollouts=rollouts)


class _Passed:
    def __init__(self, verdict):
        self.verdict = verdict


class _Letters:
    """A tokenizer of single letters."""

    eos_token_ids = ()

    def encode_inside(self, text):
        return np.array([ord(letter) for letter in text], np.int32)


class _Sampler:
    """Writes letters, from another one on for every seed, until it is stopped."""

    temperature = 1.0

    def __init__(self, seed):
        self._next = ord("a") + seed

    async def generate(self, prefix_ids, *, max_tokens):
        ids = np.arange(self._next, self._next + max_tokens, dtype=np.int32)
        self._next += max_tokens
        return Completion(
            request_id="",
            token_ids=ids,
            logprob=np.full(max_tokens, -1, np.float32),
            policy_version=np.zeros(max_tokens, np.int32),
            finish_reason="length",
        )


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        lay_out(patch, None, "planned")
        yield Bench()


def same(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def acts(bench, tree, name):
    """Whether one of the other values of a key changes what its row of the table says is seen."""
    knob = TABLE[name]
    section, _, key = split_id(name)
    value = tree
    for part in (*section.split("."), key):
        value = value.get(part) if isinstance(value, dict) else None
    before = bench.see(knob.see, tree)
    others = [changed(tree, {f"{section}.{key}": other}) for other in knob.to if other != value]
    legal = (other for other in others if not fights(recipe_of(other)))
    return any(not same(before, bench.see(knob.see, other)) for other in legal)


def test_every_key_has_a_row():
    missing, unknown = documented() - TABLE.keys(), TABLE.keys() - documented()
    assert not missing, "new key without a proof that it acts: a row of knob_table.TABLE"
    assert not unknown


def switched_on(name):
    """A recipe in which the key exists and what its row asks for holds."""
    section, kind, _ = split_id(name)
    tree = {}
    for path, value in SHRUNK.items():
        put(tree, path, value)
    if kind is not None:
        tree = changed({"algorithm": {}} | tree, {f"{section}.name": kind})
    elif section not in ("algorithm", "async", "algorithm.loss", "algorithm.advantage"):
        put(tree, section, dict(REQUIRED.get(section, {})))
    if section == "algorithm.value":
        tree = changed(tree, {"algorithm.advantage.name": "gae"})
        put(tree, "algorithm.value", {})
    return changed(tree, TABLE[name].given)


@pytest.mark.parametrize("name", TABLE)
def test_a_key_acts(bench, name):
    tree = switched_on(name)
    section, _, key = split_id(name)
    recipe = recipe_of(tree)
    assert f"{section}.{key}" not in {inert.key for inert in inert_keys(recipe)}
    assert not fights(recipe)
    assert acts(bench, tree, name)


def shrunk(recipe_name):
    """A bundled recipe, made small: the tree of all its keys."""
    algorithm = load(recipe_name).recipe.algorithm
    changes = dict(SHRUNK)
    if algorithm.value is not None:
        changes["algorithm.value.pretrain_steps"] = 0
    if algorithm.overlong is not None:
        changes["algorithm.overlong.buffer_tokens"] = 4
    if algorithm.pass_rate is not None and algorithm.pass_rate.min_count is not None:
        changes["algorithm.pass_rate.min_count"] = 8
    if algorithm.interruption is not None:
        changes |= {f"algorithm.interruption.{key}": value for key, value in REQUIRED["algorithm.interruption"].items()}
    recipe = load(recipe_name, [f"{path}={json.dumps(value)}" for path, value in changes.items()]).recipe
    return recipe.model_dump(mode="json", by_alias=True)


def ids_in(tree):
    """Ids of the keys of a recipe that are in the table and not without effect in it."""
    inert = {item.key for item in inert_keys(recipe_of(tree))}
    for path, _ in leaves(tree):
        section, _, key = path.rpartition(".")
        kind = tree["algorithm"][section.rpartition(".")[2]]["name"] if section in SWITCHED and key != "name" else None
        name = path if kind is None else f"{section}[{kind}].{key}"
        if name in TABLE and path not in inert:
            yield name


SWITCHED = ("algorithm.loss", "algorithm.advantage")
RECIPES = [name for name, file in bundled_recipes().items() if Path(name).parent == Path(".")]


@pytest.mark.parametrize("recipe_name", RECIPES)
def test_every_key_of_a_recipe_acts_in_it(bench, recipe_name):
    tree = shrunk(recipe_name)
    names = list(ids_in(tree))
    assert len(names) > 5
    # Where a key only matters once a search has gone far enough, it is given what its row asks for.
    idle = [n for n in names if not acts(bench, tree, n) and not acts(bench, changed(tree, TABLE[n].given), n)]
    assert idle == []


@pytest.mark.parametrize("case", [case for case, (_, key) in INERT.items() if key.startswith("algorithm.")])
def test_what_is_refused_as_without_effect_has_none(bench, case):
    """The other way round: no key that acts is refused."""
    text, path = INERT[case]
    small = {}
    for key, value in SHRUNK.items():
        put(small, key, value)
    put(small, "batch.num_minibatches", 1)
    tree = merge([make_layer("small", small), make_layer(case, parse_yaml(text, source=case))])
    assert path in {inert.key for inert in inert_keys(recipe_of(tree))}
    section, _, key = path.rpartition(".")
    kinds = [name for name in TABLE if split_id(name)[0] == section and split_id(name)[2] == key]
    *before, _ = bench.see("gradients", tree)
    for other in {value for name in kinds for value in TABLE[name].to}:
        *after, _ = bench.see("gradients", changed(tree, {path: other}))  # losses may differ by what has no gradient
        assert len(after) == len(before)
        assert all((a - b).norm() <= 1e-5 * b.norm() for a, b in zip(after, before, strict=True)), other
