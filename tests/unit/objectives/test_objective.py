"""The parts of an algorithm put together: what each adds, and what the trainer is asked for."""

import math

import pytest

from headrace.errors import ConfigError, RecordError
from headrace.objectives.objective import AdaptiveState, build_objective
from headrace.objectives.update_figures import UpdateFigures
from tests.unit.objectives.sections import ADAPTIVE, ENTROPY, KL, SECTIONS, algorithm
from tests.unit.objectives.tokens import loss_inputs, slope, tensor, update_tokens

START = AdaptiveState()


def test_parts_add_up_and_all_report():
    x = loss_inputs([0.1], [1.0], reference_logprob=tensor([-1.5]), entropy=tensor([0.7]))
    loss = build_objective(algorithm("ppo_clip", kl=KL | {"importance": False}, entropy=ENTROPY)).loss(x, None, START)
    k3 = math.exp(-0.5) - 1 + 0.5
    assert loss.value.item() == pytest.approx(-math.exp(0.1) + 0.05 * k3 - 0.01 * 0.7)
    assert {"ratio", "clip_high", "kl"} <= set(loss.stats)


def test_kl_in_the_reward_is_not_in_the_loss_and_wants_a_reference():
    objective = build_objective(algorithm("ppo_clip", kl=KL | {"into": "reward"}))
    x = loss_inputs([0.1], [1.0])
    assert objective.needs_reference
    assert objective.loss(x, None, START).value.item() == pytest.approx(-math.exp(0.1))


@pytest.mark.parametrize("kl", [None, KL | {"coef": 0.0}])
def test_a_kl_weight_of_zero_is_no_kl(kl):
    objective = build_objective(algorithm("reinforce", kl=kl))
    assert not objective.needs_reference
    assert objective.loss(loss_inputs([0.0], [0.37]), None, START).value.item() == pytest.approx(0.37)


def test_tokens_without_advantage_are_still_pulled_to_the_reference():
    x = loss_inputs([0.0, 0.0], [0.0, 0.0], reference_logprob=tensor([-1.2, -1.4]))
    objective = build_objective(algorithm("ppo_clip", kl=KL | {"estimator": "k1"}))
    assert objective.loss(x, None, START).value.mean().item() == pytest.approx(0.015)


def test_penalty_is_averaged_like_the_rest_whatever_the_micro_batches():
    # Ten tokens with k1 3, 3 and eight times 1: token mean 1.4, and not the 2.0 of a mean of two means.
    objective = build_objective(algorithm("ppo_clip", kl=KL | {"estimator": "k1", "coef": 1.0}))
    parts = [[3.0, 3.0], [1.0] * 8]
    total = 0.0
    for kl in parts:
        x = loss_inputs([0.0] * len(kl), [0.0] * len(kl), reference_logprob=tensor([-1.0 - k for k in kl]))
        total += (objective.loss(x, None, START).value / 10).sum().item()
    assert total == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("anchor", "name", "updates", "expected"),
    [
        ("auto", "ppo_clip", 1, "behaviour"),
        ("auto", "ppo_clip", 2, "proximal"),
        ("auto", "cispo", 2, "behaviour"),
        ("proximal", "cispo", 1, "proximal"),
        ("behaviour", "ppo_clip", 4, "behaviour"),
    ],
)
def test_anchor(anchor, name, updates, expected):
    assert build_objective(algorithm(name) | {"anchor": anchor}).anchor_for(updates) == expected


def test_only_update_wide_rules_want_the_extra_pass():
    wanting = {name for name in SECTIONS if build_objective(algorithm(name)).needs_figures}
    assert wanting == {"bapo", "bapo_balanced", "clip_cov", "kl_cov"}
    assert build_objective(algorithm("cispo")).figures(update_tokens([1.0], [1.0])) == UpdateFigures()


def test_figures_must_be_there_when_wanted():
    with pytest.raises(RecordError, match="needs figures of the whole update"):
        build_objective(algorithm("bapo")).loss(loss_inputs([0.0], [1.0]), None, START)


def test_figures_reach_the_kernel():
    objective = build_objective(algorithm("bapo"))
    figures = objective.figures(update_tokens([1.0, 1.0], [-1.0, -1.0]))
    loss = objective.loss(loss_inputs([math.log(2.9), math.log(0.5)], [1.0, -1.0]), figures, START)
    assert loss.value.tolist() == pytest.approx([-2.9, 0.9])  # bounds .9 and 3.0


def test_clip_range_follows_the_entropy_of_the_update_before():
    objective = build_objective(algorithm("cispo", adaptive_clip=ADAPTIVE))
    x = loss_inputs([math.log(100.0)], [1.0])
    assert slope(objective.loss(x, None, START), x) == pytest.approx([-4.0])
    low = objective.next_state(START, entropy=0.25)
    assert slope(objective.loss(x, None, low), x) == pytest.approx([-4.9])  # 1 + 1.3 (4 - 1)
    assert objective.state_metrics(low) == pytest.approx({"clip_factor": 1.3})
    prose = build_objective(algorithm("cispo", adaptive_clip=ADAPTIVE | {"sign": "prose"}))
    assert slope(prose.loss(x, None, low), x) == pytest.approx([-3.1])


def test_both_sides_and_a_schedule():
    objective = build_objective(algorithm("ppo_clip", adaptive_clip=ADAPTIVE | {"side": "both"}))
    x = loss_inputs([math.log(0.5), math.log(2.0)], [-1.0, 1.0])
    state = AdaptiveState(previous_entropy=0.25)
    assert objective.loss(x, None, state).value.tolist() == pytest.approx([1 - 0.26, -1 - 0.364])
    assert objective.loss(x, None, START, clip_scale=0.5).value.tolist() == pytest.approx([0.9, -1.14])
    assert objective.loss(x, None, state, clip_scale=0.5).value.tolist() == pytest.approx([0.87, -1.182])


def test_moved_bounds_are_moved_for_the_figures_too():
    objective = build_objective(algorithm("bapo_balanced", adaptive_clip=ADAPTIVE))
    tokens = update_tokens([1.25, 1.0], [1.0, -1.0])  # inside 1.26, outside 1.2
    assert objective.figures(tokens).stats["positive_share_raw"] == 0.0
    low = AdaptiveState(previous_entropy=0.25)
    assert objective.figures(tokens, low).stats["positive_share_raw"] == pytest.approx(1.25 / 2.25)


def test_entropy_weight_is_steered_from_update_to_update():
    objective = build_objective(algorithm("reinforce", entropy=ENTROPY | {"target": 0.2}))
    x = loss_inputs([0.0], [0.0], entropy=tensor([1.0]))
    state, seen = START, []
    for entropy in (0.1, 0.15, 0.3, 0.2):
        seen.append(-objective.loss(x, None, state).value.item())
        state = objective.next_state(state, entropy=entropy)
    # Not applied before an entropy is known, nor after the one of .3, which also takes .005 off.
    assert [*seen, objective.state_metrics(state)["entropy_coef"]] == pytest.approx([0.0, 0.015, 0.02, 0.0, 0.02])
    assert AdaptiveState.from_dict(state.to_dict()) == state


def test_a_fixed_entropy_weight_stays():
    objective = build_objective(algorithm("reinforce", entropy=ENTROPY))
    assert objective.entropy_has_grad
    state = objective.next_state(START, entropy=5.0)
    assert state == AdaptiveState(previous_entropy=5.0)
    x = loss_inputs([0.0], [0.0], entropy=tensor([1.0]))
    assert objective.loss(x, None, state).value.item() == pytest.approx(-0.01)
    assert not build_objective(algorithm("reinforce")).entropy_has_grad


def test_a_key_the_objective_does_not_have():
    section = algorithm("gspo")
    section["loss"]["clip_hihg"] = 0.2
    with pytest.raises(
        ConfigError, match=r"loss.clip_hihg: objective 'gspo' has no such key. Did you mean 'clip_high'"
    ):
        build_objective(section)
