"""From token rewards and values to advantages and value targets, wherever a rollout's tokens lie."""

import dataclasses

import numpy as np
import pytest

from headrace.advantages.whiten import whiten
from headrace.config import algorithm
from headrace.errors import RecordError
from headrace.packing.batch import pack
from headrace.records import Completion, Group, Prompt, Verdict, rollout_from_completions
from headrace.training.token_advantages import build_token_rule, token_targets
from tests.unit.training.thread_ranks import thread_ranks, together

GAE = {
    "name": "gae",
    "gamma": 0.5,
    "lambda_policy": 0.5,
    "lambda_value": 0.5,
    "length_alpha": None,
    "segment_tokens": 0,
    "whiten": False,
    "bootstrap_truncated": False,
}
REINFORCE = {"name": "reinforce_pp", "gamma": 0.5, "baseline": "none"}

VALUE = np.array([4.0, 2.0, 1.0])
# With score 3 at the last token and coefficient 1 the token rewards are [1, 2, 3].
KL = np.array([-1.0, -2.0, 0.0])


def rollout(name, group, tokens, reward, prompt_tokens=2):
    prompt = Prompt(prompt_id=group, source="t", text="", token_ids=np.arange(prompt_tokens, dtype=np.int32), row={})
    completion = Completion(
        request_id="",
        token_ids=np.arange(tokens, dtype=np.int32),
        logprob=np.full(tokens, -1.0, np.float32),
        policy_version=np.zeros(tokens, np.int32),
        finish_reason="stop",
    )
    made = rollout_from_completions(prompt, completion, rollout_id=name, group_id=group, seed=0, temperature=1.0)
    verdict = Verdict(reward=reward) if reward is not None else Verdict(reward=None, error="broken")
    return dataclasses.replace(made, verdict=verdict, advantage=np.zeros(made.length, np.float32)), prompt


def packed(groups, *, budget=4096, minibatches=1, epochs=1):
    """``groups``: lists of (completion length, reward)."""
    made = []
    for number, members in enumerate(groups):
        pairs = [rollout(f"{number}.{i}", str(number), n, reward) for i, (n, reward) in enumerate(members)]
        rollouts = tuple(r for r, _ in pairs)
        made.append(Group(group_id=str(number), prompt=pairs[0][1], admission=number, rollouts=rollouts))
    return pack(
        made,
        step=0,
        lineage=0,
        max_lag=0,
        loss_weight="token_mean",
        num_minibatches=minibatches,
        num_epochs=epochs,
        micro_batch_tokens=budget,
    )


def targets_of(section, batch, *, value=VALUE, kl=KL, **more):
    """Of a batch with one micro-batch."""
    (micro,) = batch.updates[0]
    found = token_targets(
        build_token_rule(section),
        batch.updates,
        rewards=batch.rewards,
        group_index=batch.group_index,
        values=None if value is None else {id(micro): value},
        kl=None if kl is None else {id(micro): kl},
        kl_coef=1.0,
        **more,
    )
    return found[id(micro)]


def check(targets, advantage, returns):
    assert targets.advantage == pytest.approx(np.array(advantage), abs=1e-12)
    assert targets.returns == pytest.approx(np.array(returns), abs=1e-12)


def test_gae_by_hand():
    # deltas: 1 + .5*2 - 4 = -2, 2 + .5*1 - 2 = .5, 3 - 1 = 2; A = [-2 + .25*1, .5 + .25*2, 2]
    check(targets_of(GAE, packed([[(3, 3.0)]])), [-1.75, 1, 2], [2.25, 3, 3])


def test_in_segments_it_is_the_same():
    check(targets_of(GAE | {"segment_tokens": 2}, packed([[(3, 3.0)]])), [-1.75, 1, 2], [2.25, 3, 3])


def test_value_targets_have_a_lambda_of_their_own():
    # lambda_value 1: returns are the discounted sums of rewards, whatever the values say.
    check(targets_of(GAE | {"lambda_value": 1.0}, packed([[(3, 3.0)]])), [-1.75, 1, 2], [2.75, 3.5, 3])


def test_lambda_may_follow_the_length():
    # .05 * 3 < 1, so lambda is 0 and an advantage is its delta; with alpha 2/3 lambda is 1 - 1/2.
    short = GAE | {"length_alpha": 0.05}
    check(targets_of(short, packed([[(3, 3.0)]])), [-2, 0.5, 2], [2.25, 3, 3])
    check(
        targets_of(GAE | {"lambda_policy": 0.9, "length_alpha": 2 / 3}, packed([[(3, 3.0)]])),
        [-1.75, 1, 2],
        [2.25, 3, 3],
    )


def test_a_truncated_rollout_ends_in_its_value_when_there_is_one():
    # deltas -2, .5, 3 + .5*2 - 1 = 3; A = [-2 + .25*1.25, .5 + .25*3, 3]
    check(targets_of(GAE, packed([[(3, 3.0)]]), end_values={0: 2.0}), [-1.6875, 1.25, 3], [2.3125, 3.25, 4])


def test_smoothed_by_hand():
    section = {"name": "smoothed", "gamma": 0.5, "smoothing": 0.5, "lambda_value": 0.5, "direction": "forward"}
    check(targets_of(section, packed([[(3, 3.0)]])), [-1, -0.25, 0.875], [2.25, 3, 3])
    # backward: A_2 = .5*2, A_1 = .5*1 + .5*.5, A_0 = .5*.75 - 1
    check(targets_of(section | {"direction": "backward"}, packed([[(3, 3.0)]])), [-0.625, 0.75, 1], [2.25, 3, 3])


def test_reinforce_pp_by_hand():
    # return to go [2.75, 3.5, 3]: mean 37/12, sample variance 7/48
    found = targets_of(REINFORCE, packed([[(3, 3.0)]]), value=None)
    assert found.returns == pytest.approx(np.array([2.75, 3.5, 3]), abs=1e-12)
    scale = (7 / 48) ** 0.5
    assert found.advantage == pytest.approx(np.array([-1 / 3, 5 / 12, -1 / 12]) / scale, abs=1e-6)


def test_reinforce_pp_with_the_group_as_baseline():
    batch = packed([[(1, 1.0), (1, 3.0)], [(1, None), (1, 4.0)]])
    found = targets_of(REINFORCE | {"baseline": "group"}, batch, value=None, kl=None)
    (micro,) = batch.updates[0]
    by_segment = dict(zip(micro.segment[micro.trainable].tolist(), found.returns.tolist(), strict=True))
    assert by_segment == {0: -1.0, 1: 1.0, 3: 0.0}  # 2 is unjudged: not trained, not in its group's mean
    by_segment = dict(zip(micro.segment[micro.trainable].tolist(), found.advantage.tolist(), strict=True))
    assert by_segment == pytest.approx({0: -1.0, 1: 1.0, 3: 0.0}, abs=1e-6)  # variance (1 + 1 + 0) / 2


def test_tokens_the_policy_did_not_write_are_skipped():
    batch = packed([[(5, 3.0)]])
    (micro,) = batch.updates[0]
    rows, columns = np.nonzero(micro.trainable)
    micro.trainable[rows[2:4], columns[2:4]] = False  # a tool answered after two of the policy's tokens
    check(targets_of(GAE, batch), [-1.75, 1, 2], [2.25, 3, 3])


def test_rollouts_in_one_row_are_apart():
    batch = packed([[(3, 3.0), (3, 3.0)]], budget=10)  # 5 + 5 tokens: one row or two, one micro-batch
    check(
        targets_of(GAE, batch, value=np.tile(VALUE, 2), kl=np.tile(KL, 2)),
        [-1.75, 1, 2] * 2,
        [2.25, 3, 3] * 2,
    )


def drawn_groups(seed=0):
    rng = np.random.default_rng(seed)
    return [[(int(rng.integers(1, 12)), float(rng.normal())) for _ in range(4)] for _ in range(6)]


def value_at(segment, t):
    return np.sin(7.0 * segment + t)


def kl_at(segment, t):
    return 0.1 * np.cos(3.0 * segment - t)


def by_token(section, batch, ranks=None):
    """{(segment, t): (advantage, return)} of a batch whose values and penalties are functions of (segment, t)."""
    micros = {id(m): m for update in batch.updates for m in update}
    places = {key: _places(m) for key, m in micros.items()}
    found = token_targets(
        build_token_rule(section),
        batch.updates,
        rewards=batch.rewards,
        group_index=batch.group_index,
        values={key: np.array([value_at(*p) for p in own]) for key, own in places.items()},
        kl={key: np.array([kl_at(*p) for p in own]) for key, own in places.items()},
        kl_coef=0.3,
        ranks=ranks,
    )
    return {
        place: (found[key].advantage[i], found[key].returns[i])
        for key, own in places.items()
        for i, place in enumerate(own)
    }


def _places(micro):
    """(segment, number of the token within its rollout) of the trainable tokens, row by row."""
    seen, places = {}, []
    for segment in micro.segment[micro.trainable].tolist():
        places.append((segment, seen.get(segment, 0)))
        seen[segment] = seen.get(segment, 0) + 1
    return places


def slow_gae(groups, gamma, lam):
    """The double sum of the definition, rollout by rollout."""
    found = {}
    for segment, (length, score) in enumerate(member for group in groups for member in group):
        reward = [-0.3 * kl_at(segment, t) for t in range(length)]
        reward[-1] += np.float64(np.float32(score))
        value = [value_at(segment, t) for t in range(length)] + [0.0]
        delta = [reward[t] + gamma * value[t + 1] - value[t] for t in range(length)]
        for t in range(length):
            advantage = sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, length))
            found[segment, t] = (advantage, advantage + value[t])
    return found


def worst(a, b):
    assert a.keys() == b.keys()
    return max(np.abs(np.subtract(a[key], b[key])).max() for key in a)


def test_a_batch_equals_the_definition():
    groups = drawn_groups()
    section = GAE | {"gamma": 0.9, "lambda_policy": 0.8, "lambda_value": 0.8}
    assert worst(by_token(section, packed(groups)), slow_gae(groups, 0.9, 0.8)) < 1e-12


@pytest.mark.parametrize("section", [GAE | {"whiten": True}, REINFORCE], ids=["gae", "reinforce_pp"])
@pytest.mark.parametrize("minibatches", [1, 2])
def test_neither_packing_nor_ranks_change_a_token(section, minibatches):
    whole = packed(drawn_groups(), minibatches=minibatches)
    expected = by_token(section, whole)
    small = packed(drawn_groups(), minibatches=minibatches, budget=26)
    assert len(small.updates[0]) > len(whole.updates[0])
    assert worst(by_token(section, small), expected) < 1e-12

    assert all(len(micro.token_ids) >= 3 for update in whole.updates for micro in update)
    parts = together(lambda ranks: by_token(section, ranks.share(whole), ranks), thread_ranks(3))
    assert min(map(len, parts)) > 10
    assert sum(map(len, parts)) == len(expected)
    assert worst({k: v for part in parts for k, v in part.items()}, expected) < 1e-12


def test_whitening_is_over_an_update_or_over_the_step():
    batch = packed(drawn_groups(), minibatches=2, epochs=3, budget=60)
    plain = by_token(GAE, batch)
    white = by_token(GAE | {"whiten": True}, batch)
    for update in batch.updates[:2]:  # epochs repeat them and count once
        own = [place for micro in update for place in _places(micro)]
        advantage = np.array([white[place][0] for place in own])
        assert advantage.mean() == pytest.approx(0.0, abs=1e-12)
        assert advantage.std(ddof=1) == pytest.approx(1.0, abs=1e-6)
    assert all(white[place][1] == plain[place][1] for place in plain)  # returns are taken before whitening

    step = np.array([advantage for advantage, _ in by_token(REINFORCE, batch).values()])
    assert (step.mean(), step.std(ddof=1)) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0, abs=1e-6))


def test_tokens_without_weight_do_not_count_in_the_whitening():
    section = GAE | {"gamma": 1.0, "whiten": True}
    batch = packed([[(1, 1.0), (1, 3.0), (1, 100.0)]])
    (micro,) = batch.updates[0]
    micro.loss_weight[micro.segment == 2] = 0.0
    found = targets_of(section, batch, value=np.zeros(3), kl=None)
    by_segment = dict(zip(micro.segment[micro.trainable].tolist(), found.advantage.tolist(), strict=True))
    # of 1 and 3: mean 2, sample variance 2
    assert by_segment == pytest.approx({0: -(0.5**0.5), 1: 0.5**0.5, 2: 98 * 0.5**0.5}, rel=1e-6)


def test_equal_advantages_are_whitened_to_exactly_0():
    found = targets_of(GAE | {"whiten": True}, packed([[(1, 2.0)]]), value=np.array([0.5]), kl=None)
    check(found, [0.0], [2.0])
    assert np.full(11, 0.3).sum() / 11 != 0.3  # a mean is off by rounding
    alike = packed([[(1, 0.0)] * 11])
    found = targets_of(GAE | {"whiten": True}, alike, value=np.full(11, -0.3), kl=None)
    assert found.advantage.tolist() == [0.0] * 11


def test_whitening_is_that_of_one_array_once():
    section = GAE | {"whiten": True}
    plain, white = by_token(GAE, packed(drawn_groups())), by_token(section, packed(drawn_groups()))
    expected = whiten([plain[place][0] for place in plain])
    assert [white[place][0] for place in plain] == pytest.approx(expected, abs=1e-12)
    assert by_token(section, packed(drawn_groups(), epochs=3)) == white


def test_a_step_without_rows_has_no_targets():
    rule = build_token_rule(GAE | {"whiten": True})
    nothing = {"rewards": np.zeros(0, np.float32), "group_index": np.zeros(0, np.int32)}
    assert token_targets(rule, [(), ()], **nothing) == {}


def test_the_rules_take_the_keys_of_their_recipe_sections():
    sections = [
        algorithm.GAE(name="gae"),
        algorithm.Smoothed(name="smoothed"),
        algorithm.ReinforcePP(name="reinforce_pp"),
    ]
    rules = [build_token_rule(section.model_dump()) for section in sections]
    assert [rule.needs_values for rule in rules] == [True, True, False]
    assert [rule.whiten_over for rule in rules] == ["update", "", "step"]


def test_what_is_refused():
    batch = packed([[(3, 3.0)]])
    with pytest.raises(RecordError, match="need a value model"):
        targets_of(GAE, batch, value=None)
    unjudged = dataclasses.replace(batch, rewards=np.array([np.nan], np.float32))
    with pytest.raises(RecordError, match="rollout 0 of the step trains without a finite reward"):
        targets_of(GAE, unjudged)


def test_other_rules_are_not_of_tokens():
    assert build_token_rule({"name": "group_relative", "mean": "group"}) is None
